"""Recorded runs of real agents become records that say what they lack, with the sources' counts."""

import gzip
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from demo_lake import ingest_events
from run_samples import gaps

from pipeline.formats import format_named, open_source
from pipeline.lake.datasets import dataset
from schemas import RunEvent

NOW_US = time.time_ns() // 1_000
TAU_BENCH = "samples/runs/tau-bench/gpt-4o-airline.json.gz"
CLAUDE_CODE = "samples/runs/claude-code/agent-test-hash-123.jsonl.gz"


def events_in(path: Path, name: str, runs: int) -> list[RunEvent]:
    """The events of the first runs in a file."""
    wanted: dict[str, None] = {}
    events = []
    with open_source(path, NOW_US) as (source, _):
        for event in format_named(name).read(source):
            wanted.setdefault(event.run_id)
            if len(wanted) > runs:
                break
            events.append(event)
    return events


def records_of(events: list[RunEvent], folder: Path) -> dict[str, dict[str, Any]]:
    lake = ingest_events(folder, events, NOW_US)
    return {row["run_id"]: row for row in dataset(lake, "runs").to_table().to_pylist()}


@pytest.fixture(scope="module")
def tau_bench(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first trajectories of the source, and their records."""
    events = events_in(shared / TAU_BENCH, "tau-bench", runs=12)
    records = records_of(events, tmp_path_factory.mktemp("tau-bench") / "lake")
    source = json.loads(gzip.decompress((shared / TAU_BENCH).read_bytes()))[: len(records)]
    return source, [records[run] for run in dict.fromkeys(event.run_id for event in events)]


def test_tau_bench_counts_are_the_sources(
    tau_bench: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    source, records = tau_bench
    assert len(records) == 12
    for run, record in zip(source, records, strict=True):
        roles = Counter(message["role"] for message in run["traj"])
        calls = sum(len(message.get("tool_calls") or ()) for message in run["traj"])
        steps, effects = record["steps"], record["effects"]
        assert steps["messages"] == len(run["traj"]) - roles["tool"]
        assert steps["tool_requests"] + effects["intended"] == calls
        assert steps["tool_responses"] + effects["completed"] == roles["tool"]
        assert (record["holes"], record["doubled"]) == (0, 0)


def test_tau_bench_records_say_what_the_format_lacks(
    tau_bench: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    for record in tau_bench[1]:
        lacking = {field for field, _ in gaps(record)}
        assert {"code", "policy", "environment", "models", "outputs"} <= lacking
        assert not record["complete"] and record["status"] == "completed"
        assert record["task"]["snapshot"] or not record["task"]["evidence"]["is_embedded"]
        assert all(gap["cost"] for gap in record["missing"])


def test_a_transcript_without_an_end_has_no_record_before_its_time_is_over(
    shared: Path, tmp_path: Path
) -> None:
    events = events_in(shared / CLAUDE_CODE, "claude-code", runs=1)
    assert events and records_of(events, tmp_path / "lake") == {}
