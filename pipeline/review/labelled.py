"""Labelled payloads: what must be gone from them when they are redacted, and what must stay.

A line of a labelled file is an object:

    {"event": {…} or "text": "…", "gone": [PLANTED, …], "kept": ["…", …], "partial": false}

PLANTED is a value, `{"value": "…", "rule": "…"}` or, in a text, `{"span": [start, end], "rule": …}`
(code points); `rule` names the rule that answers for it and may be left out.  What `kept` lists
must stand there unchanged.  What is not planted is clean, unless the line is `partial`: then of the
rest of it nothing is said.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from pipeline.errors import UsageError
from redactors.encoded import readable, runs

_DEPTH: Final = 6  # documents in strings, base64 in those, and so on


@dataclass(frozen=True, slots=True)
class Planted:
    """A value that must be gone, and the rule that answers for it ("": any)."""

    value: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A labelled payload and where it stands; a text, or an event in JSON."""

    place: str
    text: str
    is_event: bool
    planted: tuple[Planted, ...] = ()
    kept: tuple[str, ...] = ()
    partial: bool = False


class _Planted(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    value: str | None = None
    span: tuple[int, int] | None = None
    rule: str = ""

    @model_validator(mode="after")
    def _one_of(self) -> "_Planted":
        if (self.value is None) == (self.span is None):
            raise ValueError("give either `value` or `span`")
        return self


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    event: Any = None
    text: str | None = None
    gone: list[str | _Planted] = []
    kept: list[str] = []
    partial: bool = False

    @model_validator(mode="after")
    def _one_of(self) -> "_Line":
        if (self.text is None) == (self.event is None):
            raise ValueError("give either `event` or `text`")
        return self


def rows_of(files: Iterable[Path]) -> Iterator[Row]:
    """The rows of labelled files; UsageError names the line that is none, or that says of a value
    what cannot be: one that is planted or kept must stand in it."""
    for path in files:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _row(f"{path}:{number}", line)


def _row(place: str, line: bytes) -> Row:
    try:
        given = _Line.model_validate_json(line)
        planted = tuple(_planted(each, given.text) for each in given.gone)
    except (ValidationError, ValueError):
        raise UsageError(
            f"{place} is no object with `event` or `text`, `gone` and `kept`",
            code="bad-corpus",
            hint="redactory rules gate --help shows one",
        ) from None
    is_event = given.text is None
    text = given.text if given.text is not None else written(given.event)
    row = Row(place, text, is_event, planted, tuple(given.kept), given.partial)
    seen = list(readings(text))
    for value in (*(each.value for each in planted), *given.kept):
        if not stands_in(value, seen):
            raise UsageError(f"{place} labels a value that is not in it", code="bad-corpus")
    return row


def _planted(given: str | _Planted, text: str | None) -> Planted:
    if isinstance(given, str):
        return Planted(given)
    if given.span is None:
        return Planted(given.value or "", given.rule)
    start, end = given.span
    if text is None or not 0 <= start < end <= len(text):
        raise ValueError("a span lies in a text")
    return Planted(text[start:end], given.rule)


def written(event: Any) -> str:
    """An event as JSON text."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def readings(text: str, depth: int = 0) -> Iterator[str]:
    """The text, and what whoever decodes it reads in it: strings, documents in them, base64."""
    yield text
    yield json.dumps(text)[1:-1]
    if depth == _DEPTH:
        return
    try:
        strings = list(_strings(json.loads(text)))
    except (ValueError, RecursionError):
        strings = [found for run in runs(text) if (found := readable(run.data)) is not None]
    for each in strings:
        if each != text:
            yield from readings(each, depth + 1)


def stands_in(value: str, seen: Sequence[str]) -> bool:
    """Whether a value can be read in any of the readings."""
    return any(value in reading for reading in seen)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)
