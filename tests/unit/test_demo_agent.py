"""The demo's agent tells whole runs, the same ones from the same seed."""

import json
import re
from collections import defaultdict

import pytest

from pipeline.demo_agent import demo_events
from schemas import KINDS, OTHER, RunEvent, decode, encode
from schemas.kinds import BODIES

NOW_US = 1_772_366_400_000_000
RUNS = 24


@pytest.fixture(scope="module")
def events() -> list[RunEvent]:
    return list(demo_events(RUNS, 7, NOW_US))


def test_the_same_seed_tells_the_same_runs(events: list[RunEvent]) -> None:
    assert list(demo_events(RUNS, 7, NOW_US)) == events
    other = {event.event_id for event in demo_events(RUNS, 8, NOW_US)}
    assert not other & {event.event_id for event in events}


def test_every_kind_occurs_with_the_fields_it_is_described_by(events: list[RunEvent]) -> None:
    assert {event.kind for event in events} == set(KINDS) - {OTHER}
    for event in events:
        assert set(json.loads(event.body)) <= set(BODIES[event.kind].__annotations__), event.kind


def test_events_are_whole_in_order_and_past(events: list[RunEvent]) -> None:
    attempts: dict[tuple[str, int], list[RunEvent]] = defaultdict(list)
    for event in events:
        attempts[event.run_id, event.attempt].append(event)
        assert decode(encode(event)) == event
    assert len({run_id for run_id, _ in attempts}) == RUNS
    assert len({event.event_id for event in events}) == len(events)
    for told in attempts.values():
        assert [event.sequence for event in told] == list(range(len(told)))
        times_us = [event.occurred_at for event in told]
        assert times_us == sorted(times_us) and times_us[-1] < NOW_US
        assert (told[0].kind, told[-1].kind) == ("run.started", "run.finished")


def test_the_carriers_failure_holds_the_signing_key_and_the_customer_is_named(
    events: list[RunEvent],
) -> None:
    failures = [event for event in events if event.kind == "error"]
    assert failures
    assert all(re.search(r"signing_key=[0-9a-f]{64}\b", event.body) for event in failures)
    letters = [json.loads(e.body)["content"] for e in events if e.kind == "message"]
    assert any("@example." in letter for letter in letters)
    orders = [e for e in events if e.kind == "tool.responded" and e.name == "lookup_order"]
    assert json.loads(orders[0].body)["content"]["customer"]["email"]


def test_the_runs_show_what_goes_wrong_in_real_ones(events: list[RunEvent]) -> None:
    retried = {event.run_id for event in events if event.attempt == 2}
    ends = {
        (e.run_id, e.attempt): json.loads(e.body)["status"]
        for e in events
        if e.kind == "run.finished"
    }
    assert retried
    assert all(ends[run, 1] == "failed" and ends[run, 2] == "completed" for run in retried)
    intended = {(e.run_id, e.call_id) for e in events if e.kind == "effect.intended"}
    completed = {(e.run_id, e.call_id) for e in events if e.kind == "effect.completed"}
    assert completed < intended
    assert {e.retention_class for e in events} == {None, "debug"}
