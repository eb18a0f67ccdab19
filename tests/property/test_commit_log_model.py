"""An executable model of the commit protocol: writers, a sweeper, a compactor and one who cuts the
log, interleaved at every store call, frozen and killed anywhere, on a topic that loses records.

Whatever the schedule: no offset is lost, none is doubled, none comes back.
"""

from collections.abc import Callable
from functools import partial

import lake_samples
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from lake_actors import Actor
from obstore.store import MemoryStore

from pipeline.errors import LakeError, LogError
from pipeline.lake.checkpoints import truncate, write_checkpoint
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.history import read_rewrites
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.parquet import from_parquet
from pipeline.lake.proof.accounting import account
from pipeline.lake.proof.files import Offsets
from pipeline.lake.proof.trail import read_trail
from pipeline.lake.provenance import swept_rows
from pipeline.lake.recovery import LOST
from pipeline.lake.store import Store
from pipeline.lake.sweeping import ABANDONED_US, Rewriter
from pipeline.slices import Gap, MaskedSlice, Part, SliceHeader

END = 24
MOST_ACTORS = 4
SHORT = Bucket("events", "debug", "2026-01-01T01")
LONG = Bucket("events", "default", "2026-02-01T00")
DIGEST = "ab" * 32
EXPECTED_ERRORS = {"lost-partition", "taken-over", "lost-bucket", "missing", "conflicting-file"}
"""How an actor may end that was overtaken: a supervisor starts it again from the log."""


class Topic:
    """A topic partition of `END` records whose oldest may be lost; even ones live shortly."""

    def __init__(self) -> None:
        self.low = 0
        self.now_us = SHORT.starts_us - 1_000_000

    def read(self, start: int, end: int, now_us: int, reason: str) -> MaskedSlice:
        """The masked slice `[start, end)`, with a gap where records were lost."""
        first = min(max(start, self.low), end)
        gaps = (Gap(start, first, reason),) if first > start else ()
        by_bucket = {
            bucket: [offset for offset in range(first, end) if offset % 2 == rest]
            for rest, bucket in enumerate((SHORT, LONG))
        }
        refused = 0
        if SHORT.starts_us <= now_us:
            refused = len(by_bucket.pop(SHORT))
        counts = {"events": end - first - refused, "refused": refused}
        header = SliceHeader(
            "runs", "id", 0, start, end, now_us, DIGEST, DIGEST, "k", counts, gaps=gaps
        )
        parts = tuple(
            Part("events", bucket.retention_class, bucket.expires, _rows(offsets))
            for bucket, offsets in by_bucket.items()
            if offsets
        )
        return MaskedSlice(header, parts)


def _rows(offsets: list[int]) -> pa.Table:
    return pa.table({"kafka_offset": pa.array(offsets, pa.int64())})


def write_all(topic: Topic, size: int, store: Store) -> None:
    """A writer as the ingest runs it: redo what is open, then slice after slice to the end."""
    committer = SliceCommitter(store, new_claim(), lambda: topic.now_us)
    while True:
        position = PartitionLog(store, "runs", 0).position()
        if (intent := position.open_intent) is not None:
            masked = topic.read(intent.start, intent.end, intent.now_us, LOST)
        elif (start := position.next_offset or 0) < END:
            end = min(start + size, END)
            masked = topic.read(start, end, topic.now_us, "expired-in-topic")
        else:
            return
        if (written := committer.write(masked)) is not None:
            committer.commit(written)


def sweep(topic: Topic, store: Store) -> None:
    lake_samples.sweep(store, [SHORT, LONG], topic.now_us)
    Rewriter(store, new_claim(), topic.now_us).remove_strays()


def compact(topic: Topic, store: Store) -> None:
    rewriter = Rewriter(store, new_claim(), topic.now_us)
    rewriter.compact(LONG)
    rewriter.compact(SHORT)


def cut(_: Topic, store: Store) -> None:
    write_checkpoint(store, "runs", 0)
    truncate(store, "runs", 0)


def _check_end(actor: Actor) -> None:
    """Done, or overtaken: nothing else may have stopped it."""
    if actor.error is not None:
        assert isinstance(actor.error, LakeError | LogError), actor.error
        assert actor.error.code in EXPECTED_ERRORS, actor.error


class CommitProtocol(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topic, self.objects = Topic(), MemoryStore()
        self.store = Store(self.objects, "memory")
        self.actors: list[Actor] = []

    @precondition(lambda self: len(self.actors) < MOST_ACTORS)
    @rule(size=st.integers(1, 9))
    def start_writer(self, size: int) -> None:
        self._start(partial(write_all, self.topic, size))

    @precondition(lambda self: 0 < len(self.actors) < MOST_ACTORS)
    @rule(work=st.sampled_from([sweep, compact, cut]))
    def start_rewriter(self, work: Callable[[Topic, Store], None]) -> None:
        self._start(partial(work, self.topic))

    @precondition(lambda self: self.actors)
    @rule(which=st.integers(0, MOST_ACTORS - 1), calls=st.integers(1, 40))
    def go_on(self, which: int, calls: int) -> None:
        self._go_on(which, calls)

    @precondition(lambda self: self.actors)
    @rule(which=st.integers(0, MOST_ACTORS - 1), calls=st.integers(20, 300))
    def go_on_for_long(self, which: int, calls: int) -> None:
        self._go_on(which, calls)

    @precondition(lambda self: self.actors)
    @rule(
        what=st.sampled_from(["kill", "kill and lose", "kill and lose", "end bucket"]),
        which=st.integers(0, MOST_ACTORS - 1),
        count=st.integers(1, 4),
    )
    def disturb(self, what: str, which: int, count: int) -> None:
        if what == "end bucket":
            self.topic.now_us = SHORT.starts_us
            return
        self.actors.pop(which % len(self.actors)).kill()
        if what == "kill and lose":
            reached = PartitionLog(self.store, "runs", 0).position().next_offset or 0
            self.topic.low = max(self.topic.low, min(reached + count, END))

    def _start(self, work: Callable[[Store], None]) -> None:
        self.actors.append(Actor(self.objects, work))

    def _go_on(self, which: int, calls: int) -> None:
        actor = self.actors[which % len(self.actors)]
        actor.step(calls)
        if actor.is_done:
            self.actors.remove(actor)
            _check_end(actor)

    def teardown(self) -> None:
        for actor in self.actors:
            actor.finish()
            _check_end(actor)
        self._check(self._live_offsets())
        write_all(self.topic, END, self.store)
        self.topic.now_us += 2 * ABANDONED_US
        sweep(self.topic, self.store)
        live = self._live_offsets()
        self._check(live)
        self._check_nothing_came_back(live)

    def _live_offsets(self) -> list[int]:
        lake = read_lake(self.store)
        return [
            row["kafka_offset"]
            for file in lake.files["events"]
            for row in from_parquet(self.store.get(file.path)).to_pylist()
        ]

    def _check(self, live: list[int]) -> None:
        """The log is whole and accounts for every offset that it covers, exactly once."""
        trail = read_trail(self.store, "runs", 0)
        stored: Offsets = np.array(live, np.int64)
        report = account(
            trail,
            np.stack([stored, np.zeros_like(stored)]),
            swept_rows(read_rewrites(self.store)),
            trail.findings,
        )
        assert trail.findings == []
        assert report.end - report.start == (
            report.stored + report.refused + report.expired + report.removed + report.in_gaps
        )

    def _check_nothing_came_back(self, live: list[int]) -> None:
        assert PartitionLog(self.store, "runs", 0).position().next_offset == END
        assert [offset for offset in live if offset % 2 == 0] == []
        assert list(self.store.walk(SHORT.folder)) == []
        on_disk = {item.key for item in self.store.walk("events")}
        assert on_disk == {file.path for file in read_lake(self.store).files["events"]}


SHORTLY = settings(
    max_examples=200,
    stateful_step_count=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # shrinking a schedule takes longer than reading it
)


def test_no_schedule_loses_doubles_or_revives_an_offset() -> None:
    run_state_machine_as_test(CommitProtocol, settings=SHORTLY)


@pytest.mark.full
@pytest.mark.timeout(3_600)
def test_no_schedule_of_many_more_does_either() -> None:
    run_state_machine_as_test(CommitProtocol, settings=settings(SHORTLY, max_examples=3_000))
