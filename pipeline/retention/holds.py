"""Holds: rows that stay past their deadline, for a stated reason, until they are released.

A hold stops the removal of its rows only: the rest of their bucket goes.  Holds and releases are
numbered entries in `_audit/holds/`; subjects and runs are named as the lake names them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import UsageError
from pipeline.lake.layout import AUDIT, Bucket, new_claim
from pipeline.lake.numbered import NumberedLog
from pipeline.lake.removal import Flags, Keep
from pipeline.lake.store import Store
from pipeline.retention.documents import FORMAT, decode

HOLDS: Final = f"{AUDIT}/holds"

_TIMES: Final = ("occurred_at", "started_at", "ingested_at")
"""The columns, in order of preference, that say when a row's subject matter took place."""


COLUMNS: Final = ("run_id", "subjects", *_TIMES)
"""The columns that holds ask about."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Rows that meet every condition given; a condition left empty holds for all.

    `from_us` and `until_us` bound the time of the event, `[from, until)`, epoch microseconds.
    `review_on` is a date, "YYYY-MM-DD": from then on the plan reminds of it.  An entry with
    `releases` holds nothing: it ends the hold of that number.
    """

    number: int
    claim: str
    now_us: int
    by: str
    reason: str
    owner: str
    review_on: str
    runs: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    from_us: int | None = None
    until_us: int | None = None
    releases: int | None = None
    format: int = FORMAT

    def may_touch(self, bucket: Bucket) -> bool:
        """Whether any row of the bucket can be held by it."""
        return not self.classes or bucket.retention_class in self.classes

    def flags(self, rows: pa.Table) -> Flags:
        """Which rows it holds; a row without the column that a condition asks about is not."""
        held = np.ones(rows.num_rows, np.bool_)
        if self.runs:
            held &= _is_in(rows, "run_id", self.runs)
        if self.subjects:
            held &= _has_any(rows, "subjects", self.subjects)
        if self.from_us is not None or self.until_us is not None:
            held &= _is_between(rows, self.from_us, self.until_us)
        return held


@dataclass(frozen=True, slots=True)
class Rows:
    """What a hold asks for; at least one condition must be given."""

    runs: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    from_us: int | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class Holds:
    """The holds in force at one moment, and the number of the last release (0: none)."""

    active: tuple[Hold, ...] = ()
    last_release: int = 0

    def keep_in(self, bucket: Bucket) -> Keep | None:
        """What stays of a bucket that has ended; None if no hold can touch it."""
        concerned = [hold for hold in self.active if hold.may_touch(bucket)]
        if not concerned:
            return None
        return lambda rows: np.logical_or.reduce([hold.flags(rows) for hold in concerned])


class HoldBook:
    """The holds of a lake, for somebody who asks often: each entry is read once."""

    def __init__(self, store: Store) -> None:
        self._store, self._entries = store, list[Hold]()

    def read(self) -> Holds:
        """The holds that were added and not released, up to this moment."""
        log, known = NumberedLog(self._store, HOLDS), len(self._entries)
        for number in range(known + 1, log.last_number(known + 1) + 1):
            self._entries.append(decode(Hold, self._store.get(log.key(number, "commit"))))
        released = {hold.releases for hold in self._entries}
        active = [h for h in self._entries if h.releases is None and h.number not in released]
        releases = (hold.number for hold in self._entries if hold.releases is not None)
        return Holds(tuple(active), max(releases, default=0))


def read_holds(store: Store) -> Holds:
    """The holds that were added and not released."""
    return HoldBook(store).read()


def add_hold(
    store: Store, rows: Rows, *, now_us: int, by: str, reason: str, owner: str, review_on: str
) -> Hold:
    """Adds a hold, in force for every bucket that a sweep has not claimed yet."""
    if rows == Rows():
        raise UsageError(
            "a hold needs a run, a subject, a class or a time",
            code="usage",
            hint="what should stay? --run, --subject, --class, --from, --until",
        )
    return _append(
        store,
        lambda number: Hold(
            number,
            new_claim(),
            now_us,
            by,
            reason,
            owner,
            review_on,
            rows.runs,
            rows.subjects,
            rows.classes,
            rows.from_us,
            rows.until_us,
        ),
    )


def release_hold(store: Store, number: int, *, now_us: int, by: str, reason: str) -> Hold:
    """Ends a hold: its rows go with the next sweep if their bucket has ended."""
    held = {hold.number: hold for hold in read_holds(store).active}.get(number)
    if held is None:
        raise UsageError(
            f"there is no hold {number} in force",
            code="no-hold",
            hint="`redactory retention hold list` shows what there is",
        )
    return _append(
        store,
        lambda new: Hold(
            new, new_claim(), now_us, by, reason, held.owner, held.review_on, releases=number
        ),
    )


def _append(store: Store, make: Callable[[int], Hold]) -> Hold:
    log = NumberedLog(store, HOLDS)
    while True:
        hold = make(log.last_number(1) + 1)
        if log.write(hold.number, "commit", hold):
            return hold


def _is_in(rows: pa.Table, column: str, values: Sequence[str]) -> Flags:
    if column not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    found: Flags = pc.is_in(rows[column], pa.array(values, pa.string())).to_numpy()
    return found


def _has_any(rows: pa.Table, column: str, values: Sequence[str]) -> Flags:
    """Which rows have one of the values in a list column."""
    flags = np.zeros(rows.num_rows, np.bool_)
    if column in rows.column_names:
        lists = rows[column].combine_chunks()
        hits = pc.is_in(pc.list_flatten(lists), pa.array(values, pa.string())).to_numpy(
            zero_copy_only=False
        )
        flags[pc.list_parent_indices(lists).to_numpy()[hits]] = True
    return flags


def _is_between(rows: pa.Table, from_us: int | None, until_us: int | None) -> Flags:
    column = next((name for name in _TIMES if name in rows.column_names), None)
    if column is None:
        return np.zeros(rows.num_rows, np.bool_)
    times = rows[column].cast(pa.int64()).fill_null(pa.scalar(0)).to_numpy()
    inside: Flags = np.ones(rows.num_rows, np.bool_)
    if from_us is not None:
        inside &= times >= from_us
    if until_us is not None:
        inside &= times < until_us
    return inside
