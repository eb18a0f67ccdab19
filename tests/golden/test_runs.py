"""Golden runs: events told by hand, each with the record that must come of them."""

from typing import Any

import pytest
from golden_runs import COMPLETE, VARIANTS, events_of
from obstore.store import MemoryStore
from run_samples import Ingest, gaps, states

from pipeline.lake.store import Store

COMPLETE_STATES = {each["row"]: each["state"] for each in COMPLETE["record"]["completeness"]}


def record_of(events: list[dict[str, Any]], cuts: tuple[int, ...] = ()) -> dict[str, Any]:
    ingest = Ingest(Store(MemoryStore(), "memory"))
    ingest.take_all(events, cuts)
    (record,) = ingest.records().values()
    return record


def covers(found: Any, expected: Any) -> bool:
    """Whether `found` has everything that `expected` names; lists must have the same length."""
    if isinstance(expected, dict):
        return all(covers(found[name], value) for name, value in expected.items())
    if isinstance(expected, list):
        pairs = zip(found, expected, strict=True)
        return len(found) == len(expected) and all(covers(*pair) for pair in pairs)
    return bool(found == expected)


def test_the_complete_run_has_the_whole_record() -> None:
    record = record_of(COMPLETE["events"])
    for name, expected in COMPLETE["record"].items():
        assert covers(record[name], expected), (name, record[name])


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant["name"])
def test_what_a_run_lacks_is_said_with_its_cost(variant: dict[str, Any]) -> None:
    record = record_of(events_of(variant))
    expect = variant["expect"]
    assert states(record) == COMPLETE_STATES | expect.get("states", {})
    assert gaps(record) == set(expect.get("missing", {}).items())
    costs = {gap["field"]: gap["cost"] for gap in record["missing"]}
    assert covers(costs, expect.get("costs", {}))
    assert all(costs.values()), "every absence has its cost"
    assert covers(record, expect.get("columns", {})), record
    stands = {"present", "redacted", "not applicable"}
    assert record["complete"] == (set(states(record).values()) <= stands)


def test_every_row_of_the_record_goes_missing_in_one_of_the_runs() -> None:
    missing = {
        row
        for variant in VARIANTS
        for row, state in variant["expect"].get("states", {}).items()
        if state == "missing"
    }
    assert missing == set(COMPLETE_STATES)
