"""Tries a ruleset on what it should find and what it should leave: examples, and labelled files.

A line of a labelled file is `{"event": … or "text": …, "gone": [strings], "kept": [strings]}`:
what must be gone from the redacted text, and what must stand in it as it is.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from pipeline.errors import UsageError
from redactors import KeyRing, Redacted, Redactor, Ruleset, Unexaminable
from redactors.templates import expand

Sort = Literal["positives", "negatives", "corpus"]


@dataclass(frozen=True, slots=True)
class Failure:
    """What did not go as it should; holds no value."""

    sort: Sort
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Trial:
    """How many of each sort were tried, and what failed."""

    tried: dict[Sort, int]
    failures: tuple[Failure, ...]


class Labelled(BaseModel):
    """A line of a labelled file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    event: Any = None
    text: str | None = None
    gone: list[str] = []
    kept: list[str] = []

    @model_validator(mode="after")
    def _one_of(self) -> "Labelled":
        if (self.text is None) == (self.event is None):
            raise ValueError("give either `event` or `text`")
        return self


def try_rules(ruleset: Ruleset, files: Sequence[Path]) -> Trial:
    """Runs the whole redactor on every example of `ruleset` and every line of `files`."""
    keys = KeyRing("test", {"test": os.urandom(32)})
    redactor = Redactor(ruleset, keys)
    shadow = Redactor(ruleset, keys, mode="shadow") if ruleset.has_shadow else redactor
    tried: dict[Sort, int] = {"positives": 0, "negatives": 0, "corpus": 0}
    failures: list[Failure] = []
    for sort, place, reason in (*_examples(ruleset, redactor, shadow), *_corpus(files, redactor)):
        tried[sort] += 1
        if reason is not None:
            failures.append(Failure(sort, place, reason))
    return Trial(tried, tuple(failures))


_Tried = tuple[Sort, str, str | None]


def _examples(ruleset: Ruleset, acting: Redactor, shadow: Redactor) -> Iterator[_Tried]:
    for rule in ruleset.rules:
        keeps, redactor = rule.action == "keep", acting if rule.mode == "act" else shadow
        for template in rule.matches:
            masked = redactor.redact_text(expand(template)).redactions
            reason = None if masked or keeps else f"nothing in {template!r} is masked"
            yield "positives", rule.id, reason
        for template in rule.rejects:
            found = redactor.redact_text(expand(template)).redactions
            took = any(each.rule == rule.id for each in found)
            yield "negatives", rule.id, f"{template!r} is masked by it" if took else None


def _corpus(files: Iterable[Path], redactor: Redactor) -> Iterator[_Tried]:
    for path in files:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _labelled(f"{path}:{number}", line, redactor)


def _labelled(place: str, line: bytes, redactor: Redactor) -> _Tried:
    try:
        row = Labelled.model_validate_json(line)
    except ValidationError:
        reason = f"{place} is no object with `event` or `text`, `gone` and `kept`"
        raise UsageError(reason, code="bad-corpus") from None
    try:
        text = _redacted(row, redactor).text
    except Unexaminable as error:
        return "corpus", place, str(error)
    readings = (text, json.dumps(text)[1:-1], _read(text))
    left = sum(1 for value in row.gone if any(value in reading for reading in readings))
    lost = sum(1 for value in row.kept if not any(value in reading for reading in readings))
    if not left and not lost:
        return "corpus", place, None
    return "corpus", place, f"{left} of `gone` left, {lost} of `kept` changed"


def _redacted(row: Labelled, redactor: Redactor) -> Redacted:
    if row.text is not None:
        return redactor.redact_text(row.text)
    return redactor.redact_json(json.dumps(row.event, ensure_ascii=False, separators=(",", ":")))


def _read(text: str) -> str:
    """The text as a reader of its strings sees it."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text
