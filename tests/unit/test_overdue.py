"""Open-run state, and what a crash left half written, follow deadlines though no ingest runs."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from golden_runs import COMPLETE
from run_samples import NOW_US, Ingest, sliced, states

from pipeline.lake.commits import SliceCommitter
from pipeline.lake.layout import STATE, new_claim
from pipeline.lake.local import LEFT_BEHIND_S
from pipeline.lake.store import Store
from pipeline.overdue import OverdueState
from pipeline.records.state import Item, unpack
from pipeline.retention.ledger import Receipt
from pipeline.retention.policy import DAY_US
from pipeline.retention.sweep import Sweeper
from pipeline.slices import StateChange
from pipeline.state.document import MEMORY, Document, Entry, decode_document, encode_document

EVENTS = COMPLETE["events"]
DEBUG_GONE_US = NOW_US + 4 * DAY_US
ALL_GONE_US = NOW_US + 400 * DAY_US


@pytest.fixture
def ingest(tmp_path: Path) -> Ingest:
    """A run that has not finished; what its effect came to is of a class that goes early."""
    early = {"effect.completed": {"class": "debug"}}
    events = [event | early.get(event["kind"], {}) for event in EVENTS]
    ingest = Ingest(Store.open(tmp_path / "lake", create=True))
    first = sliced(events, 0, 5)
    memory = Entry("run", MEMORY, NOW_US, b"sealed values")
    ingest.take(replace(first, memories=encode_document(Document("", NOW_US, (memory,), ()))))
    ingest.take(sliced(events, 5, len(events) - 1))
    return ingest


def sweep(store: Store, now_us: int) -> Receipt | None:
    tending = OverdueState(store, lambda: now_us)
    sweeper = Sweeper(store, new_claim(), "tester", lambda: now_us, open_state=tending)
    return sweeper.sweep()


def documents(store: Store) -> list[Document]:
    return [decode_document(store.get(item.key)) for item in store.walk(STATE)]


def items(store: Store) -> Iterator[Item]:
    for document in documents(store):
        for entry in document.attempts:
            assert entry.payload is not None
            for item in (i for items in unpack(entry.payload).items.values() for i in items):
                yield item
                if item.completed is not None:
                    yield item.completed


def overdue(store: Store, now_us: int) -> list[str]:
    return [i.event_id for i in items(store) if i.content is not None and i.deadline_us <= now_us]


def test_what_is_overdue_in_the_state_goes_with_the_sweep(ingest: Ingest) -> None:
    store = ingest.store
    assert sweep(store, NOW_US) is None
    assert len(overdue(store, DEBUG_GONE_US)) > 0
    receipt = sweep(store, DEBUG_GONE_US)
    assert receipt is not None and receipt.states == ("_state/runs/0",) and receipt.is_complete
    assert overdue(store, DEBUG_GONE_US) == []
    assert any(item.content is not None for item in items(store))
    assert len(documents(store)) == 1
    assert sweep(store, DEBUG_GONE_US) is None
    sweep(store, ALL_GONE_US)
    assert not any(item.content is not None for item in items(store))


def test_a_memory_goes_when_nothing_came_of_its_run_for_as_long_as_a_row_is_kept(
    ingest: Ingest,
) -> None:
    store = ingest.store
    assert any(document.memories for document in documents(store))
    sweep(store, NOW_US + 2 * DAY_US)
    assert any(document.memories for document in documents(store))
    sweep(store, DEBUG_GONE_US)
    assert not any(document.memories for document in documents(store))


def test_the_run_goes_on_after_its_state_let_go_of_something(ingest: Ingest) -> None:
    sweep(ingest.store, DEBUG_GONE_US)
    ingest.restart()
    last = len(EVENTS) - 1
    assert ingest.take(sliced(EVENTS, last, last + 1, DEBUG_GONE_US))
    record = ingest.records()["run", 1]
    assert record["events"] == len(EVENTS) and record["effects"]["completed"] == 1
    assert states(record)["task"] == "redacted"


def test_state_that_cannot_be_changed_now_is_named_in_the_receipt(ingest: Ingest) -> None:
    last = len(EVENTS) - 1
    waiting = SliceCommitter(ingest.store, new_claim(), lambda: NOW_US)
    assert waiting.write(replace(sliced(EVENTS, last, last + 1), state=StateChange()))
    receipt = sweep(ingest.store, DEBUG_GONE_US)
    assert receipt is not None and not receipt.is_complete
    assert [(each.what, each.code) for each in receipt.failures] == [
        ("_state/runs/0", "intent-open")
    ]
    assert receipt.states == ()


def test_what_a_crash_left_half_written_goes_once_nobody_can_be_at_it(ingest: Ingest) -> None:
    folder = Path(ingest.store.location, "_tmp", "put")
    for name, age_s in (("old", LEFT_BEHIND_S + 60), ("new", 0)):
        (folder / name).write_bytes(b"half a document")
        written = (folder / name).stat().st_mtime - age_s
        os.utime(folder / name, (written, written))
    receipt = sweep(ingest.store, NOW_US)
    assert receipt is not None and receipt.unfinished == ("_tmp/put/old",)
    assert [path.name for path in folder.iterdir()] == ["new"]
