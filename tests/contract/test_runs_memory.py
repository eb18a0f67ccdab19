"""What a field showed is masked in the run's later events, whatever lies between them."""

import json
from pathlib import Path
from typing import Any

import pytest
from demo_lake import ingest_events

from pipeline.demo_agent.agent import demo_events
from pipeline.lake.query import query
from redactors import KeyRing
from schemas import RunEvent

NOW_US = 1_900_000_000_000_000
NAME = "Ottoline Quist"


def event(index: int, body: Any, run: str = "run-1", kind: str = "message") -> RunEvent:
    return RunEvent(
        event_id=f"event-{run}-{index}",
        run_id=run,
        sequence=index,
        occurred_at=NOW_US,
        kind=kind,
        body=json.dumps(body),
    )


def stored(
    folder: Path, events: list[RunEvent], *, slice_records: int, keys: KeyRing, restarts: bool
) -> list[tuple[Any, ...]]:
    """(run, body, rules) of every event, in order."""
    lake = ingest_events(folder, events, NOW_US, slice_records, keys=keys, restarts=restarts)
    sql = "SELECT run_id, body, list_transform(redactions, lambda r: r.rule) FROM events ORDER BY "
    return list(query(lake, f"{sql} kafka_offset").rows)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("slice_records", [1, 2, 100])
def test_a_name_from_a_field_is_masked_in_later_prose_of_its_run_only(
    tmp_path: Path, slice_records: int, restarts: bool
) -> None:
    events = [
        event(0, {"text": f"before, {NAME} is not known"}),
        event(1, {"full_name": NAME}),
        event(0, {"text": f"{NAME} in another run"}, run="run-2"),
        event(2, {"text": f"then {NAME} wrote again"}),
        event(3, {}, kind="run.finished"),
        event(4, {"text": f"after the end {NAME} is forgotten"}),
    ]
    rows = stored(
        tmp_path / "lake",
        events,
        slice_records=slice_records,
        keys=KeyRing.generate(),
        restarts=restarts,
    )
    assert [NAME in body for _, body, _ in rows] == [True, False, True, False, False, True]
    assert any(rule.startswith("memory:") for rule in rows[3][2])


def test_slices_and_restarts_change_nothing_in_what_is_stored(tmp_path: Path) -> None:
    events, keys = list(demo_events(6, 1, NOW_US)), KeyRing.generate()
    whole = stored(tmp_path / "whole", events, slice_records=1000, keys=keys, restarts=False)
    cut = stored(tmp_path / "cut", events, slice_records=17, keys=keys, restarts=True)
    assert cut == whole


def test_no_remembered_value_is_written_down_open(tmp_path: Path) -> None:
    events = [event(0, {"full_name": NAME}), event(1, {"text": f"ask {NAME}"})]
    folder = tmp_path / "lake"
    stored(folder, events, slice_records=1, keys=KeyRing.generate(), restarts=True)
    assert list((folder / "_state").rglob("*-*")), "there is state"
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(word.encode() in data for word in NAME.split() for data in files)
