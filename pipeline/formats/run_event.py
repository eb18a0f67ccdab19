"""`run-event`: JSON lines, each a run event as `schemas.encode_json` writes it."""

from collections.abc import Iterator
from typing import Final

from pipeline.formats.base import Format, Source
from schemas import DECODE_CODES, DecodeError, RunEvent, decode


def sniff(head: bytes) -> bool:
    """Whether the first line has the fields that every event has."""
    first = head.lstrip().partition(b"\n")[0]
    return first.startswith(b"{") and all(
        key in first for key in (b'"event_id"', b'"run_id"', b'"kind"')
    )


def read(source: Source) -> Iterator[RunEvent]:
    """One event a line, as it stands."""
    for number, line in source.lines():
        try:
            yield decode(line)
        except DecodeError as error:
            source.fail(f"{DECODE_CODES[error.code]} ({error.code})", line=number)


FORMAT: Final = Format("run-event", sniff, read)
