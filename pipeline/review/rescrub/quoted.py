"""What quotes stored events, masked again with them: run records, and the state of open runs.

Both refer to events by offset, with the digest of what is stored and the number of changes to it:
these are taken from the events as they stand when they have been masked again, so that doing it
twice, or going on after a crash, leads to the same.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from pipeline.lake.contents import Flags
from pipeline.lake.parquet import with_record_index
from pipeline.lake.proof.leaks import SAID
from pipeline.records.body import Body
from pipeline.records.capture import text_digest
from pipeline.records.completeness import PRESENT, REDACTED
from pipeline.records.events import redactions_by_row
from pipeline.records.state import RunState, pack
from pipeline.review.rescrub.scrubbing import Row, Scrubber
from redactors import Unexaminable
from schemas.parquet import evidences

Place = tuple[str, int, int, str]
"""(topic, partition, offset, event id; "" where the record at the offset is the event)"""

Attempt = tuple[str, int]
"""(run id, attempt)"""

_COLUMNS: Final = (
    "run_id", "attempt", "event_id", "kind", "name", "kafka_topic", "kafka_partition",
    "kafka_offset", "record_index", "body",
)  # fmt: skip


def places_of(topic: str, partition: int, offset: int, event_id: str) -> tuple[Place, Place]:
    """Where an event may be that is known by its offset and its id."""
    return (topic, partition, offset, ""), (topic, partition, offset, event_id)


@dataclass(slots=True)
class Facts:
    """What quotations need to know of the events as they are stored.

    `said` has digest and number of changes of the events at `wanted` places; `rules` counts the
    redactions of each attempt, `events` its rows, `models` the changes by model that was asked.
    """

    wanted: Collection[Place]
    repeated: Collection[Attempt]
    said: dict[Place, tuple[str, int]] = field(default_factory=dict)
    rules: dict[Attempt, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    events: Counter[Attempt] = field(default_factory=Counter)
    models: Counter[tuple[Attempt, str | None]] = field(default_factory=Counter)
    _seen: set[tuple[Attempt, str]] = field(default_factory=set)

    def take(self, rows: pa.Table) -> None:
        """Takes note of rows of `events`."""
        made = redactions_by_row(rows["redactions"].combine_chunks())
        rows = with_record_index(rows)
        columns = [rows[name].to_pylist() for name in _COLUMNS]
        for index, row in enumerate(zip(*columns, strict=True)):
            run_id, attempt, event_id, kind, name, *at, record_index, body = row
            place = (*at, "" if record_index is None else event_id)
            key = run_id, attempt
            self.events[key] += 1
            here = made.get(index, ())
            changes = sum(path.startswith("/") or not path for _, path in here)
            if place in self.wanted:
                self.said[place] = text_digest(body), changes
            if here and self._is_first(key, event_id):
                self.rules[key].update(rule for rule, _ in here)
                if kind.startswith("model."):
                    asked = Body(body).text("requested_model") or name
                    self.models[key, asked] += changes

    def said_at(
        self, topic: str, partition: int, offset: int, event_id: str, otherwise: tuple[str, int]
    ) -> tuple[str, int]:
        """Digest and changes of the event with this id at an offset, if it is there."""
        places = places_of(topic, partition, offset, event_id)
        return next((self.said[place] for place in places if place in self.said), otherwise)

    def _is_first(self, key: Attempt, event_id: str) -> bool:
        """Whether an event that may be stored twice was not counted yet."""
        if key not in self.repeated:
            return True
        is_new = (key, event_id) not in self._seen
        self._seen.add((key, event_id))
        return is_new


class Quotations:
    """Masks again what quotes events, by what `facts` say of these."""

    def __init__(self, scrubber: Scrubber, facts: Facts) -> None:
        self._scrubber, self._facts = scrubber, facts

    def records(self, rows: pa.Table, chosen: Flags) -> pa.Table | None:
        """The rows of `runs` with those at `chosen` masked again; None if none is to change."""
        older, done, is_new = self._scrubber.older(rows), list[Row](), False
        for index, row in enumerate(rows.to_pylist()):
            new = self._record(row, is_older=bool(older[index])) if chosen[index] else None
            is_new |= new is not None
            done.append(row if new is None else new)
        return pa.Table.from_pylist(done, schema=rows.schema) if is_new else None

    def _record(self, row: Row, *, is_older: bool) -> Row | None:
        """The record as it is to be; None if it is that already, or cannot be examined."""
        counts, redactor = self._scrubber.counts, self._scrubber.redactor
        counts.rows += 1
        try:
            new = self._examined(row)
        except Unexaminable:
            counts.unexaminable += 1
            return None
        self._refer(new, row)
        for each in new["completeness"]:
            said = new[each["row"]] if each["row"] in SAID else None
            if each["state"] == PRESENT and any(found["redactions"] for found in evidences(said)):
                each["state"] = REDACTED
        counts.changed += new != row
        if new == row and not is_older:
            return None
        return new | {"ruleset": redactor.digest, "key_id": redactor.key_id}

    def _examined(self, row: Row) -> Row:
        """A copy of the record with what it says and the names in it masked again."""
        new = deepcopy(row)
        for name in SAID:
            new[name] = self.part(row[name], row["run_id"])
        holders = [(new, "run_id"), (new["identity"], "parent_run_id")]
        holders += [(new["identity"], "retry_of")]
        holders += [(evidence, "event_id") for evidence in evidences(new)]
        names = {str(at): holder[name] for at, (holder, name) in enumerate(holders) if holder[name]}
        kept, made = self._scrubber.redactor.redact_identifiers(names)
        for redaction in made:
            holder, name = holders[int(redaction.path)]
            holder[name] = kept[redaction.path]
        return new

    def _refer(self, new: Row, row: Row) -> None:
        """Brings what the record says about its events up to them."""
        key, facts = (row["run_id"], row["attempt"]), self._facts
        is_whole = facts.events[key] == row["events"] + row["doubled"]
        for model in new["models"]:
            # One entry of many events: of these some may be gone.
            changes, asked = model["evidence"]["redactions"], (key, model["requested_model"])
            known = facts.models[asked]
            self._update(model["evidence"], row)
            model["evidence"]["redactions"] = known if is_whole else max(known, changes)
        for name in (name for name in SAID if name != "models"):
            for evidence in evidences(new[name]):
                self._update(evidence, row)
        if (trigger := new["identity"]["evidence"]) is not None:
            self._update(trigger, row)
        rules = Counter(facts.rules.get(key, ()))
        if not is_whole:
            rules |= Counter({each["rule"]: each["count"] for each in row["redactions"]})
        new["redactions"] = [{"rule": rule, "count": rules[rule]} for rule in sorted(rules)]

    def _update(self, evidence: Row, row: Row) -> None:
        at = row["kafka_topic"], row["kafka_partition"], evidence["kafka_offset"]
        evidence["digest"], evidence["redactions"] = self._facts.said_at(
            *at, evidence["event_id"], (evidence["digest"], evidence["redactions"])
        )

    def state(self, state: RunState, topic: str, partition: int) -> bool:
        """Masks the state of an open run again, in place; whether that changed anything."""
        before, key, facts = deepcopy(state), (state.run_id, state.attempt), self._facts
        is_whole = facts.events[key] == state.events + state.doubled
        for row, items in state.items.items():
            for item in (each for one in items for each in (one, one.completed) if each):
                try:
                    item.content = self.part(item.content, state.run_id)
                except Unexaminable:
                    self._scrubber.counts.unexaminable += 1
                at, changes = (topic, partition, item.offset, item.event_id), item.redactions
                item.digest, item.redactions = facts.said_at(*at, (item.digest, changes))
                if row == "models" and item.content:
                    known = facts.models[key, item.content["requested_model"]]
                    item.redactions = known if is_whole else max(known, changes)
        if is_whole:
            state.redactions = dict(sorted(facts.rules.get(key, Counter()).items()))
        return pack(state) != pack(before)

    def part(self, value: Any, run_id: str) -> Any:
        """What a part of a record says, masked again; its references to events stay.

        It is examined as a document, so that rules for fields see the names of its columns.
        """
        if not value:
            return value
        memory = self._scrubber.memories.get(run_id)
        text = json.dumps(_said(value), ensure_ascii=False)
        redacted = self._scrubber.redactor.redact_json(text, memory)
        self._scrubber.counts.redactions.update(each.rule for each in redacted.redactions)
        return _put_back(value, json.loads(redacted.text)) if redacted.redactions else value


def _said(value: Any) -> Any:
    """The part as JSON, without its references to events."""
    if isinstance(value, dict):
        is_reference = "is_embedded" in value
        return None if is_reference else {name: _said(item) for name, item in value.items()}
    return [_said(item) for item in value] if isinstance(value, list) else value


def _put_back(old: Any, new: Any) -> Any:
    """`old` with the texts of `new`, which has its shape; a number that was masked is null."""
    if isinstance(old, dict):
        if "is_embedded" in old:
            return old
        pairs = zip(old.items(), new.values(), strict=True)
        return {name: _put_back(item, put) for (name, item), put in pairs}
    if isinstance(old, list):
        return [_put_back(item, put) for item, put in zip(old, new, strict=True)]
    return new if type(new) is type(old) else None
