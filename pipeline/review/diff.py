"""Compares two rulesets: which rules differ, and what becomes of values under each.

Both are applied to the same payloads: the old one's own examples, and files.  What is said of a
value is where it stands, which rule took it and its length, never the value.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pipeline.review.payloads import Payload
from redactors import KeyRing, Redactor, Ruleset, Unexaminable
from redactors.edits import Edit

MAX_SAMPLES: Final = 5
"""Samples that are kept of each sort of difference."""

Sort = Literal[
    "newly_masked", "no_longer_masked", "masked_differently", "cannot_tell", "unexaminable"
]
"""`cannot_tell` is said of stored masks alone: their rule looks for something else now."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A value that is treated otherwise: `before` and `after` say how, as `rule: mask`; of what is
    masked already nobody knows the length."""

    place: str
    length: int | None
    before: str
    after: str


@dataclass(slots=True)
class Difference:
    """What differs between two rulesets; rules as `kind/id`, changed ones with what changed."""

    added: list[str]
    removed: list[str]
    changed: dict[str, list[str]]
    counts: dict[Sort, int] = field(
        default_factory=lambda: {
            "newly_masked": 0,
            "no_longer_masked": 0,
            "masked_differently": 0,
            "cannot_tell": 0,
            "unexaminable": 0,
        }
    )
    samples: dict[Sort, list[Sample]] = field(default_factory=dict)

    @property
    def leaks(self) -> bool:
        """Whether anything that the old rules mask is not masked by the new ones."""
        return self.counts["no_longer_masked"] > 0

    def note(self, sort: Sort, sample: Sample, count: int = 1) -> None:
        """Counts a difference, and keeps the first few."""
        self.counts[sort] += count
        kept = self.samples.setdefault(sort, [])
        if len(kept) < MAX_SAMPLES:
            kept.append(sample)

    def add(self, other: "Difference") -> None:
        """Takes over what was noted elsewhere."""
        for sort, count in other.counts.items():
            self.counts[sort] += count
            kept = self.samples.get(sort, []) + other.samples.get(sort, [])
            if kept:
                self.samples[sort] = kept[:MAX_SAMPLES]


def compare(old: Ruleset, new: Ruleset, payloads: Iterable[Payload]) -> Difference:
    """What `new` does otherwise than `old`, in itself and to `payloads`."""
    difference = changes(old, new)
    keys = KeyRing("diff", {"diff": os.urandom(32)})
    editors = Editor(old, keys), Editor(new, keys)
    for payload in payloads:
        try:
            was, now = (editor.edits(payload) for editor in editors)
        except Unexaminable as error:
            difference.note(
                "unexaminable", Sample(payload.place, len(payload.text), "", str(error))
            )
            continue
        for sort, sample in differences(payload, was, now):
            difference.note(sort, sample)
    return difference


def changes(old: Ruleset, new: Ruleset) -> Difference:
    """The entries that came, went and changed; nothing is applied."""
    declared, redeclared = _declared(old), _declared(new)
    return Difference(
        added=sorted(redeclared.keys() - declared.keys()),
        removed=sorted(declared.keys() - redeclared.keys()),
        changed={
            name: sorted(k for k in entry if entry[k] != former[k])
            for name, entry in sorted(redeclared.items())
            if (former := declared.get(name, entry)) != entry
        },
    )


class Editor(Redactor):
    """A redactor that says what it would change."""

    def edits(self, payload: Payload) -> list[Edit]:
        """What is changed in a payload, as edits of it, in order and disjoint."""
        examination = self._examination(None)
        if payload.is_event:
            return examination.document(payload.text)[0]
        return examination.text(payload.text)


def _declared(ruleset: Ruleset) -> dict[str, dict[str, Any]]:
    """Every entry by its kind and id; allowances, which have none, by their number."""
    found: dict[str, dict[str, Any]] = {}
    for kind in ("rules", "fields", "recognizers", "keep"):
        for entry in getattr(ruleset, kind):
            found[f"{kind}/{entry.id}"] = entry.model_dump(mode="json")
    for number, allow in enumerate(ruleset.allow, 1):
        found[f"allow/{number}"] = allow.model_dump(mode="json")
    return found


def differences(
    payload: Payload, was: Sequence[Edit], now: Sequence[Edit]
) -> Iterator[tuple[Sort, Sample]]:
    """What becomes otherwise of a payload that two editors would change so."""
    for edit in was:
        over = [each for each in now if each.start < edit.end and edit.start < each.end]
        sample = Sample(payload.place, edit.end - edit.start, _said([edit]), _said(over))
        if not _is_covered(edit, over):
            yield "no_longer_masked", sample
        elif len(over) != 1 or _effect(over[0]) != _effect(edit):
            yield "masked_differently", sample
    for edit in now:
        over = [each for each in was if each.start < edit.end and edit.start < each.end]
        if not _is_covered(edit, over):
            yield "newly_masked", Sample(payload.place, edit.end - edit.start, "", _said([edit]))


def _is_covered(edit: Edit, by: Sequence[Edit]) -> bool:
    """Whether all that `edit` hides is hidden by the disjoint, ordered edits `by`."""
    reached = edit.start
    for each in by:
        if each.start > reached:
            return False
        if _is_partial(each) and each.text != edit.text:
            return _is_partial(edit) and len(each.marks) >= len(edit.marks)
        reached = max(reached, each.end)
    return reached >= edit.end


def _is_partial(edit: Edit) -> bool:
    """Whether it hides only parts of what it replaces: encoded text with masks inside."""
    return any("base64" in mark.layers for mark in edit.marks)


def _effect(edit: Edit) -> tuple[int, int, str]:
    return edit.start, edit.end, edit.text


def _said(edits: Sequence[Edit]) -> str:
    marks = [mark for edit in edits for mark in edit.marks]
    return ", ".join(f"{mark.rule}: {mark.action} as {mark.label}" for mark in marks)
