"""Golden runs: events told by hand, each with the record that must come of them."""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from golden_runs import COMPLETE, VARIANTS, events_of
from obstore.store import MemoryStore
from run_samples import NOW_US, TIMEOUT_US, Ingest, gaps, sliced, states, tick

from pipeline.lake.store import Store

COMPLETE_STATES = {each["row"]: each["state"] for each in COMPLETE["record"]["completeness"]}


def records_of(
    events: list[dict[str, Any]], cuts: Iterable[int] = (), *, restarts: bool = False
) -> dict[str, dict[str, Any]]:
    """The records by run, once every time-out is over; with `restarts` nothing but the lake is
    known from one slice to the next."""
    ingest = Ingest(Store(MemoryStore(), "memory"))
    for start, end in itertools.pairwise([0, *cuts, len(events)]):
        if restarts:
            ingest.restart()
        ingest.take(sliced(events, start, end))
    ingest.take(tick(len(events), NOW_US + TIMEOUT_US))
    return {run: record for (run, _), record in ingest.records().items()}


def covers(found: Any, expected: Any) -> bool:
    """Whether `found` has everything that `expected` names; lists must have the same length."""
    if isinstance(expected, dict):
        return all(covers(found[name], value) for name, value in expected.items())
    if isinstance(expected, list):
        pairs = zip(found, expected, strict=True)
        return len(found) == len(expected) and all(covers(*pair) for pair in pairs)
    return bool(found == expected)


def test_the_complete_run_has_the_whole_record() -> None:
    record = records_of(COMPLETE["events"])["run"]
    for name, expected in COMPLETE["record"].items():
        assert covers(record[name], expected), (name, record[name])


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant["name"])
def test_what_a_run_lacks_is_said_with_its_cost(variant: dict[str, Any]) -> None:
    check(records_of(events_of(variant))["run"], variant)


def check(record: dict[str, Any], variant: dict[str, Any]) -> None:
    expect = variant["expect"]
    assert states(record) == COMPLETE_STATES | expect.get("states", {})
    assert gaps(record) == set(expect.get("missing", {}).items())
    costs = {gap["field"]: gap["cost"] for gap in record["missing"]}
    assert covers(costs, expect.get("costs", {}))
    assert all(costs.values()), "every absence has its cost"
    assert covers(record, expect.get("columns", {})), record
    stands = {"present", "redacted", "not applicable"}
    assert record["complete"] == (set(states(record).values()) <= stands)


def interleaved() -> list[dict[str, Any]]:
    """All golden runs in one partition, taking turns; each is named as it is."""
    runs = [
        [event | {"run_id": variant["name"]} for event in events_of(variant)]
        for variant in VARIANTS
    ]
    turns = itertools.zip_longest(*runs)
    return [event for turn in turns for event in turn if event is not None]


@pytest.mark.parametrize("size", [1000, 37, 5])
def test_runs_that_take_turns_have_the_records_that_they_have_alone(size: int) -> None:
    events = interleaved()
    records = records_of(events, range(size, len(events), size), restarts=size > 5)
    assert len(records) == len(VARIANTS)
    for variant in VARIANTS:
        check(records[variant["name"]], variant)


def test_the_record_is_the_same_wherever_the_slices_are_cut() -> None:
    events = COMPLETE["events"]
    whole = records_of(events)["run"]
    for cut in range(1, len(events)):
        record = records_of(events, [cut], restarts=True)["run"]
        assert record | {"path": ""} == whole | {"path": ""}, cut
    each = records_of(events, range(1, len(events)), restarts=True)["run"]
    assert each | {"path": ""} == whole | {"path": ""}


def test_every_row_of_the_record_goes_missing_in_one_of_the_runs() -> None:
    missing = {
        row
        for variant in VARIANTS
        for row, state in variant["expect"].get("states", {}).items()
        if state == "missing"
    }
    assert missing == set(COMPLETE_STATES)
