"""Golden runs: events told by hand, each with the record that must come of them."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from obstore.store import MemoryStore
from run_samples import Ingest, gaps, states

from pipeline.lake.store import Store

FOLDER = Path(__file__).parent / "runs"
COMPLETE: dict[str, Any] = yaml.safe_load((FOLDER / "complete.yaml").read_text())
VARIANTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "variants.yaml").read_text())
COMPLETE_STATES = {each["row"]: each["state"] for each in COMPLETE["record"]["completeness"]}


def events_of(variant: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of complete.yaml with a variant's changes, each with its sequence."""
    events = copy.deepcopy(COMPLETE["events"])
    out = variant.get("without", [])
    events = [event for event in events if event["kind"] not in out]
    events[-1:-1] = variant.get("add", [])
    events += variant.get("after", [])
    for sequence, event in enumerate(events):
        event["sequence"] = sequence
        for name, value in variant.get("change", {}).get(event["kind"], {}).items():
            event["body"][name] = value
            if value == "~gone":
                del event["body"][name]
        for which in ("all", event["kind"]):
            event |= variant.get("columns", {}).get(which, {})
    doubled = variant.get("after_each", [])
    events = [e for event in events for e in [event] * (1 + (event["kind"] in doubled))]
    return [event for event in events if event["kind"] not in variant.get("lost", [])]


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
