"""Shortening: rows that a changed policy keeps for less time move to the buckets of their new ends.

1. List the buckets of the policy's classes that have not ended.
2. Write the intent; what another removal left open is taken over.
3. Each bucket: claim, publish the rows in their new buckets, commit, delete.  Records first: what
   they embed still says when it goes.
4. Bring forward the deadlines of copies that may hold rows of these classes.
5. Write the receipt.

Nothing is ever kept longer: a row whose class has a longer lifetime now stays as it is.  A row that
is overdue by the new policy goes within two hours, with the bucket of the next hour but one: never
into one that has ended, so that a hold finds it where it was.
"""

import getpass
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import LakeError, LostPartition
from pipeline.lake.commits import system_clock_us
from pipeline.lake.contents import Flags
from pipeline.lake.layout import Bucket, new_claim, parse_bucket
from pipeline.lake.live import Lake, read_lake
from pipeline.lake.moving import PURPOSE, Goal, Instants, Mover
from pipeline.lake.parquet import from_parquet, with_record_index
from pipeline.lake.store import Store
from pipeline.retention.copies import Copier, first_deadline_us, read_copies
from pipeline.retention.ledger import Failure, Ledger, Receipt
from pipeline.retention.policy import HOUR_US, Policy, RetentionClass, bucket_name, load_policy
from pipeline.retention.sweep import bucket_receipt, settle, task_of
from schemas.parquet import evidences

_NEVER: Final = np.iinfo(np.int64).max
_NAMES: Final = ("event_id", "run_id")
_STARTS: Final = ("occurred_at", "captured_at", "ingested_at")
_EVENT_COLUMNS: Final = (
    *("kafka_topic", "kafka_partition", "kafka_offset", "deadline", "retention_from"), *_STARTS
)  # fmt: skip
_ORDER: Final = ("runs", "events", "dead_letters")


@dataclass(frozen=True, slots=True)
class Shortening:
    """How many rows of each bucket go sooner; `unknown` are classes that the policy has not."""

    rows: Mapping[Bucket, int]
    unknown: tuple[str, ...]


class _Ends(NamedTuple):
    """When the events of a partition go, by offset, rising; where a record holds several, each has
    its id and its run."""

    offsets: Instants
    ends: Instants
    event_ids: Sequence[str | None]
    run_ids: Sequence[str | None]

    def first(self, run_id: str, offset: int, event_id: str | None) -> int:
        """The first end of the event at an offset; of several the one with this id, or (None) all
        of the run."""
        start, stop = np.searchsorted(self.offsets, [offset, offset + 1])
        found = [
            int(self.ends[at])
            for at in range(start, stop)
            if self.event_ids[at] in (None, event_id)
            or (event_id is None and self.run_ids[at] == run_id)
        ]
        return min(found, default=int(_NEVER))


class Deadlines:
    """When events go under a policy: by class, topic, partition and offset."""

    def __init__(self, lake: Lake, policy: Policy) -> None:
        self._known: dict[str, dict[tuple[str, int], _Ends]] = {}
        gathered: dict[str, list[pa.Table]] = defaultdict(list)
        for file in lake.files["events"]:
            bucket = parse_bucket(file.path)
            if bucket is None or bucket.retention_class not in policy.classes:
                continue
            data = lake.store.get(file.path)
            rows = with_record_index(from_parquet(data, (*_EVENT_COLUMNS, "record_index")))
            deadlines_us = _of_events(rows, policy.classes[bucket.retention_class])
            columns = rows.select(["kafka_topic", "kafka_partition", "kafka_offset"])
            columns = columns.append_column("ends", pa.array(deadlines_us))
            gathered[bucket.retention_class].append(_with_names(columns, rows, data))
        for name, tables in gathered.items():
            self._known[name] = _by_partition(pa.concat_tables(tables))

    def first(
        self,
        names: Iterable[str],
        record: Mapping[str, Any],
        events: Iterable[tuple[int | None, str | None]],
    ) -> int:
        """The first deadline of events of a record (offset and id), as far as these classes have
        them."""
        at = record["kafka_topic"], record["kafka_partition"]
        known = [self._known[name][at] for name in names if at in self._known.get(name, {})]
        found = [
            ends.first(record["run_id"], offset, event_id)
            for offset, event_id in events
            if offset is not None
            for ends in known
        ]
        return min(found, default=int(_NEVER))

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of which there are events."""
        return tuple(self._known)


@dataclass(frozen=True, slots=True)
class Shortener:
    """One shortening as rewriter `claim` on behalf of `by`; `clock_us` gives epoch microseconds."""

    store: Store
    claim: str
    by: str
    clock_us: Callable[[], int]
    policy: Policy

    def plan(self) -> Shortening:
        """What `shorten` would do now; changes nothing."""
        lake, now_us = read_lake(self.store), self.clock_us()
        mover = self._mover(lake, now_us)
        rows = {bucket: _count(mover, bucket) for bucket in self._buckets(lake, now_us)}
        classes = {bucket.retention_class for bucket in _buckets_of(lake)}
        unknown = tuple(sorted(classes - set(self.policy.classes)))
        return Shortening({bucket: count for bucket, count in rows.items() if count}, unknown)

    def shorten(self, reason: str) -> Receipt | None:
        """Steps 1 to 5; None if no row goes sooner.

        Raises `LostPartition` if another removal takes over.
        """
        # 1
        lake, now_us = read_lake(self.store), self.clock_us()
        mover = self._mover(lake, now_us)
        buckets = [b for b in self._buckets(lake, now_us) if _goes_sooner(mover, b)]
        ledger = Ledger(self.store, self.claim)
        left = ledger.left_open()
        if not (buckets or left):
            return None
        # 2
        tasks = [task_of(self.store, bucket) for bucket in buckets]
        intent = ledger.begin(PURPOSE, now_us, self.by, tasks, reason=reason)
        settle(self.store, left, self.claim)
        # 3
        failures: list[Failure] = []
        for bucket in sorted(buckets, key=lambda each: _ORDER.index(each.table)):
            failures += _move(mover, bucket)
        # 4
        self._shorten_copies({bucket.retention_class for bucket in buckets}, now_us)
        receipts = [bucket_receipt(self.store, task) for task in intent.buckets]
        # 5
        return ledger.finish(intent, self.clock_us(), self.by, buckets=receipts, failures=failures)

    def _buckets(self, lake: Lake, now_us: int) -> list[Bucket]:
        return [
            bucket
            for bucket in _buckets_of(lake)
            if bucket.retention_class in self.policy.classes and bucket.starts_us > now_us
        ]

    def _mover(self, lake: Lake, now_us: int) -> Mover:
        has_records = any(bucket.table == "runs" for bucket in self._buckets(lake, now_us))
        deadlines = Deadlines(lake, self.policy) if has_records else None

        def aim(bucket: Bucket, rows: pa.Table) -> Goal:
            kept = self.policy.classes[bucket.retention_class]
            if bucket.table == "runs":
                assert deadlines is not None
                deadlines_us = _of_records(rows, bucket.retention_class, kept, deadlines)
            elif bucket.table == "events":
                deadlines_us = _of_events(rows, kept)
            else:
                deadlines_us = _sooner(rows, _micros(rows, "ingested_at") + kept.lifetime_us)
            return _goal(rows, deadlines_us, kept.bucket_us, now_us)

        return Mover(self.store, claim=self.claim, now_us=now_us, aim=aim, name_of=bucket_name)

    def _shorten_copies(self, classes: set[str], now_us: int) -> None:
        """Step 4.  The rows of a copy were live when it was made: none goes before the first one
        that still is."""
        lake = read_lake(self.store)
        copier = Copier(self.store, self.by, "", self.clock_us)
        for copy in read_copies(self.store):
            concerned = classes & set(copy.classes or classes)
            files = (file for files in lake.files.values() for file in files)
            first_us = first_deadline_us(
                file
                for file in files
                if (bucket := parse_bucket(file.path))
                and bucket.retention_class in concerned
                and bucket.starts_us > now_us
            )
            if first_us is not None and first_us < copy.deadline_us:
                copier.shorten(copy, first_us)


def shorten_in_lake(location: str, policy: Path, reason: str) -> Receipt | None:
    """Shortens the rows of the lake at `location` to what a policy file says."""
    return _shortener(location, policy).shorten(reason)


def plan_shortening(location: str, policy: Path) -> Shortening:
    """What `shorten_in_lake` would do."""
    return _shortener(location, policy).plan()


def _shortener(location: str, policy: Path) -> Shortener:
    store = Store.open(location)
    return Shortener(store, new_claim(), getpass.getuser(), system_clock_us, load_policy(policy))


def _buckets_of(lake: Lake) -> list[Bucket]:
    found = {parse_bucket(file.path) for files in lake.files.values() for file in files}
    return sorted(bucket for bucket in found if bucket is not None)


def _count(mover: Mover, bucket: Bucket) -> int:
    return mover.preview(bucket, _EVENT_COLUMNS if bucket.table == "events" else None)


def _goes_sooner(mover: Mover, bucket: Bucket) -> bool:
    try:
        return _count(mover, bucket) > 0
    except LakeError:
        return True  # it fails again in its turn, and is noted then


def _move(mover: Mover, bucket: Bucket) -> Iterator[Failure]:
    try:
        mover.move(bucket)
    except LostPartition:
        raise
    except LakeError as error:
        yield Failure(bucket.folder, error.code, str(error))


def _goal(rows: pa.Table, deadlines_us: Instants, bucket_us: int, now_us: int) -> Goal:
    is_sooner = deadlines_us < _micros(rows, "deadline")
    expires_us = deadlines_us - deadlines_us % bucket_us
    overdue = expires_us <= now_us
    soon_us = now_us - now_us % HOUR_US + 2 * HOUR_US
    deadlines_us = np.where(overdue, soon_us, deadlines_us)
    return Goal(deadlines_us, np.where(is_sooner, np.where(overdue, soon_us, expires_us), _NEVER))


def _of_events(rows: pa.Table, kept: RetentionClass) -> Instants:
    """The deadlines of events by the time from which each was said to count."""
    starts_us = _micros(rows, "occurred_at")
    captured = rows["captured_at"].is_valid().to_numpy()
    starts_us = np.where(captured, _micros(rows, "captured_at"), starts_us)
    if "retention_from" in rows.column_names:
        counted = rows["retention_from"].combine_chunks()
        starts_us = np.where(_is(counted, "ingested_at"), _micros(rows, "ingested_at"), starts_us)
        starts_us = np.where(_is(counted, "epoch"), 0, starts_us)
    return _sooner(rows, starts_us + kept.lifetime_us)


def _of_records(rows: pa.Table, name: str, kept: RetentionClass, deadlines: Deadlines) -> Instants:
    """A record goes with the first event whose content it holds, and with the one whose class it
    follows: the run's start, or the earliest there is."""
    found: list[int] = []
    for row in rows.to_pylist():
        start = (row["identity"] or {}).get("evidence") or {}
        own = [(row["first_offset"], None), (start.get("kafka_offset"), start.get("event_id"))]
        embedded = [_quoted(each) for each in evidences(row) if each["is_embedded"]]
        first_us = deadlines.first([name], row, own)
        found.append(min(first_us, deadlines.first(deadlines.classes, row, embedded)))
    latest_us = _micros(rows, "ingested_at") + kept.lifetime_us
    return _sooner(rows, np.minimum(np.array(found, np.int64), latest_us))


def _sooner(rows: pa.Table, deadlines_us: Instants) -> Instants:
    return np.minimum(deadlines_us, _micros(rows, "deadline"))


def _micros(rows: pa.Table, name: str) -> Instants:
    times: Instants = rows[name].cast(pa.int64()).fill_null(pa.scalar(0)).to_numpy()
    return times


def _is(column: "pa.Array[Any]", word: str) -> Flags:
    flags: Flags = pc.equal(column, pa.scalar(word)).fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _quoted(evidence: Mapping[str, Any]) -> tuple[int, str]:
    return evidence["kafka_offset"], evidence["event_id"]


def _with_names(columns: pa.Table, rows: pa.Table, data: bytes) -> pa.Table:
    """`columns` with ids and runs of those `rows` that share their record with others; the file's
    names are read only where there are any."""
    shared, null = rows["record_index"].is_valid(), pa.scalar(None, pa.string())
    named = from_parquet(data, _NAMES) if pc.any(shared).as_py() else None
    for name in _NAMES:
        column = pc.if_else(shared, null if named is None else named[name], null)
        columns = columns.append_column(name, column)
    return columns


def _by_partition(rows: pa.Table) -> dict[tuple[str, int], _Ends]:
    found: dict[tuple[str, int], _Ends] = {}
    pairs = rows.group_by(["kafka_topic", "kafka_partition"]).aggregate([]).to_pylist()
    for pair in pairs:
        topic, partition = pair["kafka_topic"], pair["kafka_partition"]
        mine = rows.filter(
            (pc.field("kafka_topic") == topic) & (pc.field("kafka_partition") == partition)
        ).sort_by("kafka_offset")
        found[topic, partition] = _Ends(
            mine["kafka_offset"].to_numpy(),
            mine["ends"].to_numpy(),
            mine["event_id"].to_pylist(),
            mine["run_id"].to_pylist(),
        )
    return found
