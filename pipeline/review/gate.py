"""The two-sided gate: fails where a planted value survives, and where a clean one is changed."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pipeline.review.diff import Editor
from pipeline.review.labelled import Row, readings, stands_in
from pipeline.review.payloads import Payload
from redactors import KeyRing, Ruleset, Unexaminable
from redactors.edits import Edit

Sort = Literal["leak", "over-redaction", "unexaminable"]

_ESCAPED: Final = 3  # how often a value may stand in strings of documents in strings


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in a payload: of a value only its length is said.

    `rule` answers for a value that leaked ("": nobody said which), or changed a clean one.
    """

    sort: Sort
    place: str
    rule: str
    length: int


@dataclass(slots=True)
class Score:
    """How a rule does: `found` of the `planted` values it answers for are gone, whichever rule took
    them; `right` of its `hits` touch a planted value."""

    planted: int = 0
    found: int = 0
    hits: int = 0
    right: int = 0

    @property
    def recall(self) -> float | None:
        """From 0 to 1; None: nothing was planted for it."""
        return self.found / self.planted if self.planted else None

    @property
    def precision(self) -> float | None:
        """From 0 to 1; None: it hit nothing."""
        return self.right / self.hits if self.hits else None

    @property
    def is_perfect(self) -> bool:
        """Whether it left nothing that was planted and took nothing else."""
        return self.found == self.planted and self.right == self.hits


@dataclass(slots=True)
class Verdict:
    """What the gate saw; it is passed if nothing failed."""

    rows: int = 0
    planted: int = 0
    failures: list[Failure] = field(default_factory=list)
    scores: dict[str, Score] = field(default_factory=dict)

    def score(self, rule: str) -> Score:
        """The score of a rule, to be added to."""
        return self.scores.setdefault(rule, Score())

    def count(self, sort: Sort) -> int:
        """How many failures of a sort there are."""
        return sum(failure.sort == sort for failure in self.failures)


def judge(ruleset: Ruleset, rows: Iterable[Row]) -> Verdict:
    """What a ruleset does to labelled payloads, under a fresh key."""
    editor, verdict = Editor(ruleset, KeyRing("gate", {"gate": os.urandom(32)})), Verdict()
    for row in rows:
        verdict.rows += 1
        verdict.planted += len(row.planted)
        try:
            edits = editor.edits(Payload(row.place, row.text, row.is_event))
            redact = editor.redact_json if row.is_event else editor.redact_text
            masked = redact(row.text).text
        except Unexaminable:
            verdict.failures.append(Failure("unexaminable", row.place, "", len(row.text)))
            continue
        _weigh_planted(verdict, row, list(readings(masked)))
        _weigh_edits(verdict, row, edits)
    return verdict


def _weigh_planted(verdict: Verdict, row: Row, seen: Sequence[str]) -> None:
    for planted in row.planted:
        leaks = stands_in(planted.value, seen)
        if planted.rule:
            score = verdict.score(planted.rule)
            score.planted += 1
            score.found += not leaks
        if leaks:
            verdict.failures.append(Failure("leak", row.place, planted.rule, len(planted.value)))
    for value in row.kept:
        if not stands_in(value, seen):
            verdict.failures.append(Failure("over-redaction", row.place, "", len(value)))


def _weigh_edits(verdict: Verdict, row: Row, edits: Sequence[Edit]) -> None:
    spans = list(_planted_spans(row))
    hidden = any(not list(_places(row.text, planted.value)) for planted in row.planted)
    for edit in edits:
        touches = any(start < edit.end and edit.start < end for start, end in spans)
        decodes = hidden and any(mark.layers for mark in edit.marks)
        is_right = touches or decodes
        if not is_right and row.partial:
            continue  # nobody says what it should be
        for mark in edit.marks:
            score = verdict.score(mark.rule.removeprefix("memory:"))
            score.hits += 1
            score.right += is_right
        if not is_right:
            rule, length = edit.marks[0].rule, edit.end - edit.start
            verdict.failures.append(Failure("over-redaction", row.place, rule, length))


def _planted_spans(row: Row) -> Iterator[tuple[int, int]]:
    for planted in row.planted:
        yield from _places(row.text, planted.value)


def _places(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Where a value stands in a text, also in strings of documents."""
    for is_ascii in (False, True):
        spelled = value
        for _ in range(_ESCAPED):
            at = text.find(spelled)
            while at >= 0:
                yield at, at + len(spelled)
                at = text.find(spelled, at + 1)
            spelled = json.dumps(spelled, ensure_ascii=is_ascii)[1:-1]
