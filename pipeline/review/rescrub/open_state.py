"""What open runs hold of their events, masked again: by a commit of its own, as a sweep does it."""

from collections.abc import Callable, Iterator

from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.overdue import commit_state
from pipeline.records.state import Item, RunState, pack, unpack
from pipeline.review.rescrub.quoted import Attempt, Place, Quotations, places_of
from pipeline.state.chain import read_chain
from pipeline.state.document import Entry
from pipeline.state.open_runs import OpenRuns


def quoted_by_open_runs(
    store: Store, topic: str, partition: int
) -> tuple[set[Place], set[Attempt]]:
    """The places of events that open runs quote, and the attempts that have events twice."""
    open_runs = _read(store, topic, partition)
    states = [unpack(entry.payload or b"") for entry in open_runs.oldest()]
    places = {
        place
        for state in states
        for item in _items(state)
        for place in places_of(topic, partition, item.offset, item.event_id)
    }
    return places, {(state.run_id, state.attempt) for state in states if state.doubled}


def scrub_open_runs(
    store: Store,
    topic: str,
    partition: int,
    quotations: Quotations,
    clock_us: Callable[[], int],
) -> bool:
    """Masks the state of a partition again; whether anything of it changed.

    Raises `LogError` while a slice of it waits to be redone, `LostPartition` if an ingest goes on
    here: what that holds is masked again when this is run after it.
    """
    open_runs, changed = changed_entries(store, topic, partition, quotations)
    last = PartitionLog(store, topic, partition).position().last_commit
    if not changed or last is None:
        return False
    for entry in changed:
        open_runs.rewrite(entry)
    commit_state(store, last, open_runs, clock_us(), clock_us)
    return True


def changed_entries(
    store: Store, topic: str, partition: int, quotations: Quotations
) -> tuple[OpenRuns, list[Entry]]:
    """The open runs of a partition, and what is to stand in the place of some of them."""
    open_runs = _read(store, topic, partition)
    changed: list[Entry] = []
    for entry in open_runs.oldest():
        state = unpack(entry.payload or b"")
        if quotations.state(state, topic, partition):
            due_us = state.content_deadline_us()
            changed.append(Entry(entry.run_id, entry.attempt, entry.seen_us, pack(state), due_us))
    return open_runs, changed


def _read(store: Store, topic: str, partition: int) -> OpenRuns:
    last = PartitionLog(store, topic, partition).position().last_commit
    digest = last.state_digest if last else None
    return OpenRuns(read_chain(store, topic, partition, digest))


def _items(state: RunState) -> Iterator[Item]:
    for item in (item for items in state.items.values() for item in items):
        yield item
        if item.completed is not None:
            yield item.completed
