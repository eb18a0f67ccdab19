"""Folds the events of masked slices into run records, between reading and writing.

    state of open runs, events of a slice → state, records of the runs that ended

The state of a partition is that of its log's last commit, whatever became of earlier attempts: so
a slice that is assembled again gives the same records and the same state.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import Final

import pyarrow as pa

from pipeline.errors import LogError
from pipeline.lake.documents import load_policy_document
from pipeline.lake.doubles import COUNT
from pipeline.lake.log import PartitionLog, Position
from pipeline.lake.recovery import with_recovered_rows
from pipeline.lake.store import VERIFY_HINT, Store
from pipeline.records.events import Event, events_of
from pipeline.records.fold import abandon, begin, fold
from pipeline.records.record import Record, make_record
from pipeline.records.state import RunState, pack, unpack
from pipeline.retention.policy import HOUR_US, Policy, parse_policy
from pipeline.slices import MaskedSlice, Part, SliceHeader, StateChange
from pipeline.state.chain import read_chain
from pipeline.state.document import Entry, decode_document
from pipeline.state.open_runs import OpenRuns
from schemas.parquet import RUNS

MAX_ATTEMPTS: Final = 1_000_000
"""Attempts of one partition that are open at once; past it the least recently seen is abandoned."""


ENDS_MAX: Final = 20_000
"""Attempts that time out in one slice: the records of more would not fit into memory.  Those that
are left have their turn when time passes next."""


@dataclass(slots=True)
class _Partition:
    """The state of a partition up to offset `end`."""

    end: int | None
    open_runs: OpenRuns


class Assembler:
    """Assembles the slices of partitions, those of one partition in order.

    A run of which nothing came for `timeout_us` has timed out: it is abandoned if it has not
    finished; if it has, late events are not joined to its record any more.
    """

    def __init__(self, store: Store, timeout_us: int, max_attempts: int = MAX_ATTEMPTS) -> None:
        self._store, self._timeout_us, self._max_attempts = store, timeout_us, max_attempts
        self._positions: dict[tuple[str, int], Position] = {}
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._policies: dict[str, Policy] = {}

    def assemble(self, masked: MaskedSlice) -> MaskedSlice | None:
        """The slice with its records and what it changes of the open-run state.

        None if it has no offsets and no time has run out.  A slice that the log has already is
        handed on as it is.
        """
        header = masked.header
        position = self._position(header.topic, header.partition)
        if position.next_offset is not None and header.start < position.next_offset:
            return masked
        partition = self._partition_at(header, position)
        masked = with_recovered_rows(self._store, masked, position.next_number)
        work = _Work(partition.open_runs, header, self._max_attempts)
        work.remember(masked.memories)
        work.fold(events_of(masked.parts, self._policy(header.policy)))
        if header.start == header.end:
            work.time_out(header.now_us - self._timeout_us)
        change = self._change(work)
        if header.start == header.end and not change.document:
            return None
        partition.end = header.end
        return _with_records(masked, work, change)

    def _change(self, work: "_Work") -> StateChange:
        now_us = work.header.now_us
        horizon_us = now_us + HOUR_US  # no bucket is smaller
        is_stale = work.open_runs.is_stale(now_us, horizon_us, self._timeout_us)
        if is_stale:
            let_go_before(work.open_runs, horizon_us)
        return work.open_runs.take_change(now_us, as_base=is_stale)

    def _position(self, topic: str, partition: int) -> Position:
        log, known = PartitionLog(self._store, topic, partition), self._positions
        at = topic, partition
        known[at] = log.position(known[at]) if at in known else log.position()
        return known[at]

    def _partition_at(self, header: SliceHeader, position: Position) -> _Partition:
        """The state where the slice starts: what we hold, unless the log says otherwise."""
        at = header.topic, header.partition
        known = self._partitions.get(at)
        committed = position.last_commit.state_digest if position.last_commit else None
        if position.next_offset in (None, header.start):
            if known is None or known.end != header.start or known.open_runs.digest != committed:
                known = self._partitions[at] = _Partition(
                    header.start, OpenRuns(read_chain(self._store, *at, committed))
                )
        elif known is None or known.end != header.start:
            raise LogError(
                f"a slice starts at offset {header.start}, the log ends at {position.next_offset}",
                code="not-contiguous",
                hint=VERIFY_HINT,
            )
        return known

    def _policy(self, digest: str) -> Policy:
        if digest not in self._policies:
            document = load_policy_document(self._store, digest)
            self._policies[digest] = parse_policy(document)
        return self._policies[digest]


class _Work:
    """One slice at work on the open runs."""

    def __init__(self, open_runs: OpenRuns, header: SliceHeader, max_attempts: int) -> None:
        self.open_runs, self.header, self._max_attempts = open_runs, header, max_attempts
        self.records: list[Record] = []
        self.doubled = 0
        self._touched: OrderedDict[tuple[str, int], RunState] = OrderedDict()

    def remember(self, memories: bytes) -> None:
        """Takes in what the reader hands on of the runs' memories, sealed."""
        if memories:
            for entry in decode_document(memories).memories:
                self.open_runs.put(entry)

    def fold(self, events: Iterable[Event]) -> None:
        """Folds events in, in the order of their offsets; writes the records of what has ended."""
        for event in events:
            key = event.run_id, event.attempt
            state = self._touched.get(key) or self._opened(*key)
            known = state.doubled
            self._touched[key] = state = fold(state, event)
            self.doubled += state.doubled - known or state.may_repeat
            self._touched.move_to_end(key)
        for state in self._touched.values():
            if state.status is not None:
                self.records.append(make_record(state, self.header))
            self._put(state)
        while len(self.open_runs) > self._max_attempts:
            self._end(next(self.open_runs.oldest()))

    def time_out(self, before_us: int) -> None:
        """Abandons attempts that were last seen at `before_us` or earlier.

        They stay for another time-out, in case that they go on; those that had ended go.
        """
        due = takewhile(lambda entry: entry.seen_us <= before_us, self.open_runs.oldest())
        for entry in list(islice(due, ENDS_MAX)):
            if (state := self._end(entry)) is not None:
                self._put(state)

    def _opened(self, run_id: str, attempt: int) -> RunState:
        entry = self.open_runs.get(run_id, attempt)
        if entry is not None and entry.payload is not None:
            return unpack(entry.payload)
        return begin(run_id, attempt)

    def _end(self, entry: Entry) -> RunState | None:
        """Takes an attempt out; if it had not ended, it is abandoned and comes back."""
        assert entry.payload is not None
        self.open_runs.drop(entry.run_id, entry.attempt)
        state = unpack(entry.payload)
        if state.status is not None:
            return None
        self.records.append(make_record(abandon(state), self.header))
        return state

    def _put(self, state: RunState) -> None:
        self.open_runs.put(_entry_of(state, self.header.now_us))


def let_go_before(open_runs: OpenRuns, time_us: int) -> None:
    """Lets go of content whose events go before `time_us`."""
    for entry in open_runs.ending_before(time_us):
        assert entry.payload is not None
        state = unpack(entry.payload)
        state.drop_content_before(time_us)
        open_runs.rewrite(_entry_of(state, entry.seen_us))


def _entry_of(state: RunState, seen_us: int) -> Entry:
    deadline_us = state.content_deadline_us()
    return Entry(state.run_id, state.attempt, seen_us, pack(state), deadline_us)


def _with_records(masked: MaskedSlice, work: _Work, change: StateChange) -> MaskedSlice:
    place = attrgetter("retention_class", "expires")
    parts = tuple(
        Part("runs", *where, pa.Table.from_pylist([record.row for record in group], schema=RUNS))
        for where, group in groupby(sorted(work.records, key=place), key=place)
    )
    counts = dict(masked.header.counts) | {"runs": sum(part.rows.num_rows for part in parts)}
    counts |= {COUNT: work.doubled} if work.doubled else {}
    # Records come last: where they are published already, so is all they were made from.
    header = replace(masked.header, counts=counts)
    return MaskedSlice(header, (*masked.parts, *parts), state=change)
