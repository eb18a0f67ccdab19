"""Tries a ruleset on what it should find and what it should leave: examples, and labelled files."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipeline.review.labelled import Row, readings, rows_of, stands_in
from redactors import KeyRing, Redactor, Ruleset, Unexaminable
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
    for row in rows_of(files):
        yield "corpus", row.place, _wrong(row, redactor)


def _wrong(row: Row, redactor: Redactor) -> str | None:
    redact = redactor.redact_json if row.is_event else redactor.redact_text
    try:
        seen = list(readings(redact(row.text).text))
    except Unexaminable as error:
        return str(error)
    left = sum(1 for planted in row.planted if stands_in(planted.value, seen))
    lost = sum(1 for value in row.kept if not stands_in(value, seen))
    return f"{left} of `gone` left, {lost} of `kept` changed" if left or lost else None
