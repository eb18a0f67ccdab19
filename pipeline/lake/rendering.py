"""Rows of a query as JSON, CSV or cells of a table; stored text never reaches a terminal raw."""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import IO, Any, cast

import pyarrow as pa

from pipeline.lake.query import Result


def as_json(result: Result) -> Iterator[str]:
    """A JSON list of row objects, in pieces: one line for each row."""
    yield "["
    for index, row in enumerate(result.rows):
        fields = {name: plain(value) for name, value in zip(result.columns, row, strict=True)}
        yield ("," if index else "") + "\n" + json.dumps(fields, ensure_ascii=False)
    yield "\n]\n"


def as_csv(result: Result) -> Iterator[str]:
    """CSV with a header line (RFC 4180); lists and structs as JSON text, NULL as nothing."""
    yield _csv_line(result.columns)
    for row in result.rows:
        yield _csv_line(tuple(_text(value) for value in row))


def write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], sink: IO[bytes]) -> None:
    """The rows as an Arrow IPC stream."""
    with pa.ipc.new_stream(cast("io.IOBase", sink), schema) as stream:
        for batch in batches:
            stream.write_batch(batch)


def as_cells(row: tuple[Any, ...]) -> list[str]:
    """One row for a terminal: control characters shown as `\\x1b`, not sent."""
    return ["".join(map(_visible, _text(value))) for value in row]


def _csv_line(cells: tuple[str, ...]) -> str:
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n").writerow(cells)
    return sink.getvalue()


def _text(value: Any) -> str:
    shown = plain(value)
    if shown is None:
        return ""
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def plain(value: Any) -> Any:
    """A value of JSON's own types; times as ISO 8601, in UTC with a `Z`, bytes as hex."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return str(value)


def _visible(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return character.encode("unicode_escape").decode()
