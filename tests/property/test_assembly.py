"""The fold gives the same records whatever the slices, and after a crash anywhere."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore
from run_samples import Ingest, sliced

from pipeline import faultpoints
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store

KINDS: list[dict[str, Any]] = [
    {"kind": "run.started", "body": {"trigger": {"type": "test"}}},
    {"kind": "task.captured", "body": {"task": {"goal": "x"}}, "redacted": ["email"]},
    {"kind": "task.captured", "body": {"task": "another"}, "class": "debug"},
    {"kind": "policy.captured", "body": {"factory_revision": "1", "tools": []}},
    {"kind": "message"},
    {"kind": "model.requested", "name": "m", "body": {"provider": "p", "settings": {"t": 0}}},
    {"kind": "model.responded", "name": "m", "body": {"returned_model": "m-1", "usage": {}}},
    {"kind": "effect.intended", "call_id": "c1", "body": {"actor": "agent"}},
    {"kind": "effect.completed", "call_id": "c1", "body": {"status": "ok"}},
    {"kind": "decision.made", "body": {"decision": "go"}, "class": "legal"},
    {"kind": "artifact.produced", "name": "patch", "body": {"uri": "x"}},
    {"kind": "input.declared", "body": {"input": "code", "state": "not_applicable"}},
    {"kind": "run.finished", "body": {"status": "completed"}},
]
ELSEWHERE = ("read", "redact", "offset-commit")
POINTS = [point for point in faultpoints.POINTS if point.partition(".")[0] not in ELSEWHERE]
"""Every fault point between the masked slice and the end of its commit."""


@st.composite
def traffic(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Interleaved events of a few attempts: out of order, with holes, doubled, after the end."""
    events = []
    for _ in range(draw(st.integers(1, 25))):
        event = draw(st.sampled_from(KINDS))
        attempt = draw(st.sampled_from([("a", 1), ("a", 2), ("b", 1)]))
        sequence = draw(st.integers(0, 12))
        identity = f"{attempt}-{sequence}-{draw(st.sampled_from('xy'))}"
        events.append(
            {
                **event,
                "run_id": attempt[0],
                "attempt": attempt[1],
                "sequence": sequence,
                "event_id": identity,
            }
        )
    return events


def records(ingest: Ingest) -> dict[tuple[str, int], dict[str, Any]]:
    """The latest records, but for the clock and rules of their slice and the file they are in."""
    return {
        key: {name: value for name, value in record.items() if name not in ("path", "ingested_at")}
        for key, record in ingest.records().items()
    }


@given(traffic(), st.sets(st.integers(1, 24)), st.sets(st.integers(0, 24)))
@settings(max_examples=60)
def test_the_records_are_the_same_for_every_slice_boundary_and_restart(
    events: list[dict[str, Any]], cuts: set[int], restarts: set[int]
) -> None:
    whole = Ingest(Store(MemoryStore(), "memory"))
    whole.take_all(events)
    cut = Ingest(Store(MemoryStore(), "memory"))
    ends = sorted({*(at for at in cuts if at < len(events)), len(events)})
    for index, (start, end) in enumerate(itertools.pairwise([0, *ends])):
        if index in restarts:
            cut.restart()
        cut.take(sliced(events, start, end))
    assert records(cut) == records(whole)


class Killed(BaseException):
    """Stands for `kill -9`: nothing after it runs."""


def kill_at(point: str, nth: int) -> None:
    """Ends the writer when it comes to a fault point for the nth time."""
    passed = itertools.count(1)

    def act(name: str) -> None:
        if name == point and next(passed) == nth:
            raise Killed

    faultpoints.install(act)


def continue_from_log(ingest: Ingest, events: list[dict[str, Any]], cuts: list[int]) -> None:
    """What a reader does: redo the open intent, then go on, with other slices if need be."""
    position = PartitionLog(ingest.store, "runs", 0).position()
    if (intent := position.open_intent) is not None:
        ingest.take(sliced(events, intent.start, intent.end, intent.now_us))
        position = PartitionLog(ingest.store, "runs", 0).position()
    start = position.next_offset or 0
    ends = sorted({*(at for at in cuts if at > start), len(events)} - {start})
    for at, end in itertools.pairwise([start, *ends]):
        ingest.take(sliced(events, at, end))


def crashing_events() -> list[dict[str, Any]]:
    """Two runs, interleaved, that end in different slices; a doubled and a late event."""
    steps = [0, 1, 3, 4, 5, 6, 7, 8, 10, 11, 12, 4]
    runs = [
        {**KINDS[kind], "run_id": run, "sequence": at, "event_id": f"{run}-{at}"}
        for at, kind in enumerate(steps)
        for run in ("a", "b")
    ]
    return [*runs[:9], runs[8], *runs[9:]]


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_next_writer_ends_with_the_same_records(
    point: str, nth: int, tmp_path: Path
) -> None:
    events = crashing_events()
    calm = Ingest(Store(MemoryStore(), "memory"))
    calm.take_all(events, cuts=[6, 13, 20])
    ingest = Ingest(Store.open(tmp_path / "lake", create=True))
    kill_at(point, 1 if point.startswith("claim") else nth)  # a writer claims a partition once
    with pytest.raises(Killed):
        ingest.take_all(events, cuts=[6, 13, 20])
    faultpoints.install(None)
    ingest.restart()
    continue_from_log(ingest, events, cuts=[9, 17])
    assert records(ingest) == records(calm)
    assert {key: record["status"] for key, record in records(ingest).items()} == {
        ("a", 1): "completed",
        ("b", 1): "completed",
    }
