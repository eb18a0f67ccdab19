"""Results of queries as files, each entered as a copy before it is written."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow.parquet as pq

from pipeline.errors import UsageError
from pipeline.lake import rendering
from pipeline.lake.layout import parse_bucket
from pipeline.lake.live import Lake
from pipeline.lake.query import query, query_batches
from pipeline.retention.copies import Copier, Copy


def of_classes(lake: Lake, classes: tuple[str, ...]) -> Lake:
    """The lake as if it had only these retention classes; all of it if none is named."""
    if not classes:
        return lake
    files = {
        table: tuple(
            file
            for file in entries
            if (bucket := parse_bucket(file.path)) and bucket.retention_class in classes
        )
        for table, entries in lake.files.items()
    }
    return replace(lake, files=files)


def export_query(lake: Lake, sql: str, path: Path, copier: Copier) -> Copy:
    """Writes the result of a query to a new file; its suffix says how: .parquet, .csv or .json.

    Its deadline is the first among everything that the query could read.
    """
    writer = _WRITERS.get(path.suffix)
    if writer is None:
        raise UsageError(
            f"{path} has no suffix that says how to write it",
            code="usage",
            hint="use .parquet, .csv or .json",
        )
    files = (file for files in lake.files.values() for file in files)
    return copier.export(path, "query", files, lambda file: writer(lake, sql, file))


def export_page(lake: Lake, paths: Collection[str], page: str, to: Path, copier: Copier) -> Copy:
    """Writes a page made of rows of some files to a new file."""
    files = (file for files in lake.files.values() for file in files if file.path in paths)
    return copier.export(to, "html", files, lambda file: file.write(page.encode()))


def _write_parquet(lake: Lake, sql: str, file: BinaryIO) -> None:
    schema, batches = query_batches(lake, sql)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_csv(lake: Lake, sql: str, file: BinaryIO) -> None:
    file.writelines(piece.encode() for piece in rendering.as_csv(query(lake, sql)))


def _write_json(lake: Lake, sql: str, file: BinaryIO) -> None:
    file.writelines(piece.encode() for piece in rendering.as_json(query(lake, sql)))


_WRITERS: Final[Mapping[str, Callable[[Lake, str, BinaryIO], None]]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
