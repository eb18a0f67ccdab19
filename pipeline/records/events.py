"""Rows of `events` as the fold sees them: what a record is made of, and no more."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lake.parquet import with_record_index
from pipeline.retention.policy import Policy
from pipeline.slices import Part

WITHOUT_BODY: Final = (
    "message", "tool.requested", "tool.responded", "error", "intervention", "other"
)  # fmt: skip
"""Kinds that a record only counts: their content stays in `events`."""

_COLUMNS: Final = (
    "kafka_offset", "run_id", "attempt", "sequence", "event_id", "kind", "name", "call_id",
    "idempotency_key", "parent_run_id", "retry_of", "record_index",
)  # fmt: skip


class Life(NamedTuple):
    """How long an event is kept: its class, that class's lifetime and bucket in microseconds.

    `may_be_copied` is False where content is sealed, or read for stated purposes only: a record
    then refers to it.
    """

    retention_class: str
    lifetime_us: int
    bucket_us: int
    may_be_copied: bool = True


class Event(NamedTuple):
    """One row; times are epoch microseconds, `body` is None for `WITHOUT_BODY`, `rules` are the
    rules of its redactions, each as often as it fired, and `changes` those made to its body.

    `record_index` says which event of its record it is; None: the record is the event.  Only then
    is its `sequence` a number in its run.
    """

    offset: int
    run_id: str
    attempt: int
    sequence: int
    event_id: str
    kind: str
    name: str | None
    call_id: str | None
    idempotency_key: str | None
    parent_run_id: str | None
    retry_of: str | None
    record_index: int | None
    occurred_us: int
    deadline_us: int
    body: str | None
    rules: tuple[str, ...]
    changes: int
    life: Life


def events_of(parts: Iterable[Part], policy: Policy) -> list[Event]:
    """The events of a slice, by offset, those of one record in their order."""
    events = [
        event
        for part in parts
        if part.table == "events"
        for event in _rows(part.rows, _life(policy, part.retention_class))
    ]
    events.sort(key=lambda event: (event.offset, event.record_index or 0))
    return events


def _life(policy: Policy, name: str) -> Life:
    kept = policy.classes[name]
    is_open = kept.action == "delete" and not kept.purposes
    return Life(name, kept.lifetime_us, kept.bucket_us, is_open)


def _rows(rows: pa.Table, life: Life) -> Iterator[Event]:
    rows = with_record_index(rows)  # those that were recovered may be older
    columns = [rows[name].to_pylist() for name in _COLUMNS]
    times = [rows[name].cast(pa.int64()).to_pylist() for name in ("occurred_at", "deadline")]
    needed = pc.invert(pc.is_in(rows["kind"], pa.array(WITHOUT_BODY)))
    bodies = pc.if_else(needed, rows["body"], pa.scalar(None, pa.string())).to_pylist()
    redactions = redactions_by_row(rows["redactions"].combine_chunks())
    for index, row in enumerate(zip(*columns, *times, bodies, strict=True)):
        made = redactions.get(index, ())
        changes = sum(path.startswith("/") or not path for _, path in made)
        yield Event._make((*row, tuple(rule for rule, _ in made), changes, life))


def redactions_by_row(redactions: "pa.Array[Any]") -> dict[int, list[tuple[str, str]]]:
    """(rule, path) of the redactions in each row that has any."""
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    rows = np.asarray(pc.list_parent_indices(redactions))
    made = pc.list_flatten(redactions)
    rules, paths = (pc.struct_field(made, name).to_pylist() for name in ("rule", "path"))
    for row, rule, path in zip(rows.tolist(), rules, paths, strict=True):
        found[row].append((rule, path))
    return found
