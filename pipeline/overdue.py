"""Open-run state that nobody tends: what is overdue in it goes by a commit of its own.

While an ingest runs, its assembler lets go of content an hour before it is due.  When none runs,
the sweep does it, partition by partition: it reads the state, writes a base without what is overdue
and commits it in a slice without offsets; the older documents are deleted then.  A memory of values
that were masked has no deadline of its own: it goes when nothing came of its run for as long as the
shortest class keeps a row.
"""

import getpass
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline.assemble import let_go_before
from pipeline.errors import LogError
from pipeline.lake.commits import SliceCommitter, system_clock_us
from pipeline.lake.documents import load_policy_document
from pipeline.lake.entries import Commit
from pipeline.lake.history import partitions
from pipeline.lake.layout import new_claim, state_folder
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.retention.ledger import Receipt
from pipeline.retention.policy import HOUR_US, parse_policy
from pipeline.retention.subjects import ring_if_any
from pipeline.retention.sweep import Sweeper
from pipeline.slices import MaskedSlice, SliceHeader
from pipeline.state.chain import read_chain
from pipeline.state.open_runs import OpenRuns


@dataclass(frozen=True, slots=True)
class OverdueState:
    """The open-run state of a lake, as the sweep sees it; `clock_us` gives epoch microseconds."""

    store: Store
    clock_us: Callable[[], int]

    def due(self, now_us: int) -> tuple[str, ...]:
        """The folders of the partitions in whose state something is overdue."""
        return tuple(
            state_folder(topic, partition)
            for topic, partition in partitions(self.store)
            if (found := self._read(topic, partition)) and found[1].is_overdue(now_us, found[2])
        )

    def let_go(self, folder: str, now_us: int) -> None:
        """Lets go of what is overdue in a partition's state.

        Raises `LogError` while a slice of it waits to be redone, `LostPartition` if an ingest goes
        on here after all.
        """
        topic, partition = next(at for at in partitions(self.store) if state_folder(*at) == folder)
        found = self._read(topic, partition)
        if found is None:
            return
        last, open_runs, idle_us = found
        let_go_before(open_runs, now_us + HOUR_US)
        open_runs.forget_before(now_us - idle_us)
        commit_state(self.store, last, open_runs, now_us, self.clock_us)

    def _read(self, topic: str, partition: int) -> tuple[Commit, OpenRuns, int] | None:
        """The last commit, its state, and for how long the shortest class keeps a row."""
        last = PartitionLog(self.store, topic, partition).position().last_commit
        if last is None or last.state_digest is None:
            return None
        policy = parse_policy(load_policy_document(self.store, last.policy))
        shortest_us = min(each.lifetime_us for each in policy.classes.values())
        documents = read_chain(self.store, topic, partition, last.state_digest)
        return last, OpenRuns(documents), shortest_us


def commit_state(
    store: Store, last: Commit, open_runs: OpenRuns, now_us: int, clock_us: Callable[[], int]
) -> None:
    """Commits the open-run state after `last` as a base, in a slice without offsets.

    Raises `LogError` while a slice waits to be redone, `LostPartition` if an ingest goes on here.
    """
    log = PartitionLog(store, last.topic, last.partition)
    if log.position().open_intent is not None:
        raise LogError(
            "a slice waits to be redone, so that the open-run state cannot be changed",
            code="intent-open",
            hint="run the ingest, or `redactory log supersede`",
        )
    header = SliceHeader(
        last.topic,
        last.topic_id,
        last.partition,
        last.end,
        last.end,
        now_us,
        last.ruleset,
        last.policy,
        last.key_id,
        encoding=last.encoding,
    )
    change = open_runs.take_change(now_us, as_base=True)
    writer = SliceCommitter(store, new_claim(), clock_us)
    written = writer.write(MaskedSlice(header, (), state=change))
    if written is not None:
        writer.commit(written)


def sweep_lake(location: str, keys: Path | None, *, with_strays: bool) -> Receipt | None:
    """Sweeps the lake at `location` now; `keys` is the key ring's file (None: the default one)."""
    store = Store.open(location)
    sweeper = Sweeper(
        store,
        new_claim(),
        getpass.getuser(),
        system_clock_us,
        ring_if_any(keys),
        open_state=OverdueState(store, system_clock_us),
    )
    return sweeper.sweep(with_strays=with_strays)
