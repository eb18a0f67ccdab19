"""What every input format has in common: a source of bytes, and the events made from it."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import IO, Any, Final, NoReturn, cast
from uuid import UUID, uuid5

from pipeline.errors import InputError
from schemas import RunEvent

LINE_MAX_BYTES: Final = 64 << 20
FILE_MAX_BYTES: Final = 1 << 30
HEAD_BYTES: Final = 64 << 10

AT_IMPORT: Final = 253_402_300_799_999_999
"""Stands for the time of an import that is not known yet; see `stamped`."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# The namespace of every id that an importer derives.
_IDS: Final = UUID("8c1e4f6a-0b3d-5e72-9a41-d2f6c85b7e10")


@dataclass(frozen=True, slots=True)
class Source:
    """An open file, decompressed; `name` is for messages, `captured_at_us` is the import's time."""

    stream: IO[bytes]
    name: str
    captured_at_us: int

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, numbered from 1, without their line break."""
        number = 0
        while line := self._read(self.stream.readline, LINE_MAX_BYTES + 1):
            number += 1
            if len(line) > LINE_MAX_BYTES:
                self.fail("the line is too long", line=number)
            if text := line.rstrip(b"\r\n"):
                yield number, text

    def whole(self) -> bytes:
        """All of the file."""
        content = self._read(self.stream.read, FILE_MAX_BYTES + 1)
        if len(content) > FILE_MAX_BYTES:
            self.fail("the file is too large to be read as one JSON value")
        return content

    def head(self) -> bytes:
        """The first bytes; reading goes on after them."""
        return self._read(self.stream.read, HEAD_BYTES)

    def fail(self, what: str, *, line: int | None = None) -> NoReturn:
        """Raise an `InputError` that names file and line; `what` must hold nothing of the file."""
        place = f"{self.name}:{line}" if line else self.name
        raise InputError(f"{place}: {what}", code="input-file", hint="check --format and the file")

    def _read(self, read: Callable[[int], bytes], size_bytes: int) -> bytes:
        try:
            return read(size_bytes)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            self.fail("the gzip data is damaged or ends too early")


@dataclass(frozen=True, slots=True)
class Format:
    """One input format.

    `sniff` says from the head of a file (at most `HEAD_BYTES`) whether it is of this format;
    `read` yields its events in order and raises `InputError` at the first thing it cannot read.
    """

    name: str
    sniff: Callable[[bytes], bool]
    read: Callable[[Source], Iterator[RunEvent]]


@contextmanager
def open_source(path: Path, captured_at_us: int) -> Iterator[tuple[Source, IO[bytes]]]:
    """The source at `path`, plain or gzip, and the raw file, whose position is the progress."""
    try:
        raw = path.open("rb")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror})", code="input-file", hint="check the file"
        ) from None
    with raw:
        is_gzip = raw.peek(2).startswith(b"\x1f\x8b")
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if is_gzip else raw
        yield Source(stream, str(path), captured_at_us), raw


def stamped(event: RunEvent, captured_at_us: int) -> RunEvent:
    """An event that was read with `AT_IMPORT` as the time of the import, now with that time."""
    if event.captured_at != AT_IMPORT:
        return event
    is_timed = event.occurred_at != AT_IMPORT
    occurred_at_us = event.occurred_at if is_timed else captured_at_us
    return replace(event, occurred_at=occurred_at_us, captured_at=captured_at_us)


def derived_id(*parts: str | int) -> str:
    """The same id for the same parts: emitting a file twice gives the same events."""
    return str(uuid5(_IDS, "/".join(map(str, parts))))


def epoch_us(time: Any, zone: tzinfo | None = None) -> int:
    """Epoch microseconds of an ISO 8601 text; `zone` is that of a text without one.

    Raises `ValueError` or `TypeError` if it is none, or without any zone.
    """
    parsed = datetime.fromisoformat(time)
    zoned = parsed.replace(tzinfo=zone) if parsed.tzinfo is None else parsed
    return (zoned - _EPOCH) // timedelta(microseconds=1)


def parse_json(source: Source, text: bytes, *, line: int | None = None) -> Any:
    """The value of a JSON text; what would not survive (repeated keys, NaN) is an error."""
    try:
        return faithful_json(text)
    except UnicodeDecodeError:
        source.fail("this is not UTF-8", line=line)
    except RecursionError:
        source.fail("the JSON is nested too deeply", line=line)
    except _Unfaithful as error:
        source.fail(str(error), line=line)
    except ValueError:
        source.fail("this is not valid JSON", line=line)


def faithful_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError or RecursionError for what would not survive."""
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)


def json_text(value: Any) -> str:
    """JSON text for a body: compact, in UTF-8, numbers and order of keys as parsed."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8: only its escape can say what stood there.
        return json.dumps(value, separators=(",", ":"))
    return text


class _Unfaithful(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) != len(pairs):
        raise _Unfaithful("an object repeats a key")
    return items


def _no_constant(name: str) -> NoReturn:
    raise _Unfaithful("NaN and Infinity are no JSON")
