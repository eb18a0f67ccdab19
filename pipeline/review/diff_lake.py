"""Compares two rulesets over a lake: over what its rows declare, and over what they say.

Of what is masked the original is gone, so that a declaration has to do: the rule it names is still
there, does otherwise, or is not.  What stands in clear is looked at once, first with the rules that
differ alone: where these find nothing, nothing differs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pipeline.lake.documents import load_ruleset_document, stored_rulesets
from pipeline.lake.entries import FileEntry
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.proof.leaks import IDENTIFIERS
from pipeline.lake.sealing import has_keys
from pipeline.lake.store import Store
from pipeline.review.declarations import SORT, declarations
from pipeline.review.diff import Difference, Editor, Sample, Sort, differences
from pipeline.review.payloads import Payload
from redactors import (
    KeyRing,
    Redactor,
    Ruleset,
    Unexaminable,
    parse_document,
    ruleset_digest,
    ruleset_document,
)
from redactors.engine import labels_of
from redactors.fields import Roles
from redactors.ruleset import FieldRule, Recognizer, Rule
from redactors.templates import expand

FEW_FILES: Final = 4
"""Up to here starting processes costs more than they save."""

_BATCH: Final = 2_000
_PLACE: Final = ("kafka_topic", "kafka_partition", "kafka_offset")
_COLUMNS: Final = (*IDENTIFIERS, *_PLACE, "body", "redactions", "ruleset")

Entry = Rule | FieldRule | Recognizer
Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""


@dataclass(frozen=True, slots=True, order=True)
class Declared:
    """A sort of declaration: what masked a value, and what it is called where it stands."""

    rule: str
    label: str
    action: str
    name: str


@dataclass(slots=True)
class Seen:
    """What files hold: declarations by sort, each with a place, and differences in clear text."""

    declared: Counter[Declared] = field(default_factory=Counter)
    places: dict[Declared, str] = field(default_factory=dict)
    clear: Difference = field(default_factory=lambda: Difference([], [], {}))
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """Two rulesets to compare over a lake, in a form that travels; `keys` is the ring's file (None:
    there is none, and hashed masks are taken for text)."""

    location: str
    old: bytes
    new: bytes
    keys: Path | None


def compare_over_lake(
    difference: Difference, question: Question, processes: int, progress: Progress
) -> int:
    """Adds to `difference` what the lake has to say; how many events were looked at.

    Sealed files whose keys are not here are counted as not examinable.
    """
    store = Store.open(question.location)
    fates = _Fates(parse_document(question.old), parse_document(question.new))
    files = read_lake(store).files["events"]
    total = Seen()
    for number, seen in enumerate(_looked_at(question, files, processes), 1):
        total.rows += seen.rows
        total.declared += seen.declared
        total.places = seen.places | total.places
        difference.add(seen.clear)
        progress(number, len(files))
    for each, count in sorted(total.declared.items()):
        fate = fates.of(each)
        if fate is not None:
            before = f"{each.rule}: {each.action} as {each.label}"
            difference.note(fate[0], Sample(total.places[each], None, before, fate[1]), count)
    return total.rows


class _Fates:
    """What becomes of masked values, as far as their declarations tell."""

    def __init__(self, old: Ruleset, new: Ruleset) -> None:
        old, new = old.in_mode("act"), new.in_mode("act")  # in shadow nothing is masked
        self._old, self._new = _entries(old), _entries(new)
        self._roles = Roles(new.fields, lambda name: False)
        self._ruleset = new

    def of(self, declared: Declared) -> tuple[Sort, str] | None:
        """The sort of difference and what is done now; None: as before, or no rule of ours."""
        rule = declared.rule.removeprefix("memory:")
        before, after = self._old.get(rule), self._new.get(rule)
        if before is None:
            return None
        if after is None:
            return self._without(before, declared)
        if after.action == "keep" and before.action != "keep":
            return "no_longer_masked", f"{rule}: keep"
        if (after.label, after.action) != (before.label, before.action):
            return "masked_differently", f"{rule}: {after.action} as {after.label}"
        looks = {"reason", "owner", "matches", "rejects"}
        if before.model_dump(exclude=looks) == after.model_dump(exclude=looks):
            return None
        if isinstance(after, FieldRule) and self._by_name(declared) is after:
            return None
        return "cannot_tell", f"{rule}, which looks for something else now"

    def _without(self, before: Entry, declared: Declared) -> tuple[Sort, str]:
        """The same for a rule that is gone: another may take its names, or all of its examples."""
        after: Entry | None = None
        if isinstance(before, FieldRule):
            after = self._by_name(declared)
        elif isinstance(before, Rule):
            after = self._by_examples(before)
        if after is None:
            return "no_longer_masked", ""
        return "masked_differently", f"{after.id}: {after.action} as {after.label}"

    def _by_name(self, declared: Declared) -> FieldRule | None:
        found = self._roles.rule_for(declared.name)
        return found if found is not None and found.action != "keep" else None

    def _by_examples(self, rule: Rule) -> Entry | None:
        """The rule that masks every example of one, if there is one."""
        found = [
            {made.rule for made in self._redactor.redact_text(expand(template)).redactions}
            for template in rule.matches
        ]
        takers = set.intersection(*found) if found else set()
        return next((self._new[each] for each in sorted(takers) if each in self._new), None)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self._ruleset, KeyRing("diff", {"diff": bytes(32)}))


def _entries(ruleset: Ruleset) -> dict[str, Entry]:
    every: tuple[Entry, ...] = (*ruleset.rules, *ruleset.fields, *ruleset.recognizers)
    return {entry.id: entry for entry in every}


def only_different(old: Ruleset, new: Ruleset) -> Ruleset:
    """Rules that find something wherever two rulesets may do otherwise: those that differ, in both
    forms; all fields, if some differ, since names pass from one to the other; and all there is, if
    what the two leave alone differs."""
    kept = [[each for each in r.rules if each.action == "keep"] for r in (old, new)]
    is_all = (old.keep, old.allow, kept[0]) != (new.keep, new.allow, kept[1])
    found: dict[str, list[Any]] = {"rules": [], "fields": [], "recognizers": []}
    for ruleset, other, suffix in ((old, new, "-was"), (new, old, "")):
        theirs = _entries(other)
        for kind, entries in found.items():
            differ = [e for e in getattr(ruleset, kind) if is_all or theirs.get(e.id) != e]
            if kind == "fields" and old.fields != new.fields:
                differ = list(ruleset.fields)
            entries += [
                entry.model_copy(update={"id": entry.id + suffix})
                for entry in differ
                if entry.action != "keep"
            ]
    nothing = {"keep": (), "allow": ()}
    return new.model_copy(update={kind: tuple(each) for kind, each in found.items()} | nothing)


class _Looker:
    """Looks at files in one process."""

    def __init__(self, question: Question) -> None:
        self._store = Store.open(question.location)
        self._old, self._new = parse_document(question.old), parse_document(question.new)
        self._keys = KeyRing.load(question.keys) if question.keys else KeyRing.generate()
        kept = [load_ruleset_document(self._store, each) for each in stored_rulesets(self._store)]
        every = (self._old, self._new, *map(parse_document, kept))
        self._labels = {label for ruleset in every for label in labels_of(ruleset)}
        self._digest = ruleset_digest(self._old)
        self._first = self._editor(only_different(self._old, self._new))

    @cached_property
    def _whole(self) -> tuple[Editor, Editor]:
        return self._editor(self._old), self._editor(self._new)

    def _editor(self, ruleset: Ruleset) -> Editor:
        return Editor(ruleset, self._keys, labels=self._labels)

    def look(self, file: FileEntry) -> Seen:
        """Everything that a file of events has to say."""
        seen = Seen(rows=file.rows)
        if file.sealed and not has_keys(self._store.bucket_keys, file.sealed):
            seen.clear.note("unexaminable", Sample(file.path, None, "", "key-gone"), file.rows)
            return seen
        rows = from_parquet(self._store.get(file.path), _COLUMNS, self._store.bucket_keys)
        self._take_declared(seen, rows)
        for name in IDENTIFIERS:
            self._take_names(seen, name, rows)
        self._take_bodies(seen, rows)
        return seen

    def _take_declared(self, seen: Seen, rows: pa.Table) -> None:
        made = declarations(rows)
        groups = made.group_by(list(SORT)).aggregate([("path", "count"), ("path", "min")])
        for row in groups.to_pylist():
            sort = Declared(*(row[key] for key in SORT))
            seen.declared[sort] += row["path_count"]
            seen.places.setdefault(sort, row["path_min"])

    def _take_names(self, seen: Seen, name: str, rows: pa.Table) -> None:
        """Counts what is newly found in a column of names; each is looked at once."""
        counts = Counter(value for value in rows[name].to_pylist() if value)
        values = list(counts)
        for start in range(0, len(values), _BATCH):
            batch = {str(number): value for number, value in enumerate(values[start:][:_BATCH])}
            if not self._first.redact_identifiers(batch)[1]:
                continue
            was, now = ({m.path for m in e.redact_identifiers(batch)[1]} for e in self._whole)
            for path in sorted(now - was, key=int):
                sample = Sample(name, len(batch[path]), "", "identifier: hash as ID")
                seen.clear.note("newly_masked", sample, counts[batch[path]])

    def _take_bodies(self, seen: Seen, rows: pa.Table) -> None:
        """Looks at each text once, however often it stands there."""
        grouped = rows.group_by(["body", "ruleset"], use_threads=False)
        counted = grouped.aggregate([([], "count_all"), *((name, "first") for name in _PLACE)])
        for row in counted.to_pylist():
            topic, partition, offset = (row[f"{name}_first"] for name in _PLACE)
            payload = Payload(f"{topic} {partition}:{offset}", row["body"], True)
            # Under their own rules rows hold nothing more: `verify` proves it.
            is_ours = row["ruleset"] == self._digest
            for sort, sample in self._differences(payload, is_ours=is_ours):
                seen.clear.note(sort, sample, row["count_all"])

    def _differences(self, payload: Payload, *, is_ours: bool) -> Iterator[tuple[Sort, Sample]]:
        try:
            if not self._first.redact_json(payload.text).redactions:
                return
            was, now = self._whole
            yield from differences(
                payload, [] if is_ours else was.edits(payload), now.edits(payload)
            )
        except Unexaminable as error:
            yield "unexaminable", Sample(payload.place, len(payload.text), "", str(error))


def _looked_at(question: Question, files: Sequence[FileEntry], processes: int) -> Iterator[Seen]:
    if processes == 1 or len(files) <= FEW_FILES:
        yield from map(_Looker(question).look, files)
        return
    # Forking would copy the threads' locks of Arrow and the object store.
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, _start, (question,)) as pool:
        yield from pool.map(_look, files, chunksize=2)


_looker: _Looker | None = None


def _start(question: Question) -> None:
    global _looker
    _looker = _Looker(question)


def _look(file: FileEntry) -> Seen:
    assert _looker is not None
    return _looker.look(file)


def question(location: str, old: Ruleset, new: Ruleset, keys: Path | None) -> Question:
    """The question for two rulesets."""
    return Question(location, ruleset_document(old), ruleset_document(new), keys)
