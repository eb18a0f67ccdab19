"""Recorded runs of real agents become records that say what they lack, with the sources' counts."""

import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from demo_lake import ingest_events
from run_samples import gaps, states

from pipeline.formats import format_of, open_source
from pipeline.lake.datasets import dataset
from schemas import RunEvent

NOW_US = time.time_ns() // 1_000
RUNS_A_FILE = 12
"""Of a file with more runs the first ones are taken."""

Counts = tuple[int, int]
"""Messages and tool calls."""


def tau_bench(content: bytes) -> Iterator[Counts]:
    for run in json.loads(content)[:RUNS_A_FILE]:
        said = [message for message in run["traj"] if message["role"] != "tool"]
        yield len(said), sum(len(message.get("tool_calls") or ()) for message in said)


def claude_code(content: bytes) -> Iterator[Counts]:
    """A turn that calls for a tool, or brings a result, is told by that; others are messages."""
    turns = [json.loads(line) for line in content.splitlines()]
    blocks = [_blocks(turn) for turn in turns if turn["type"] in ("user", "assistant")]
    calls = sum(block["type"] == "tool_use" for turn in blocks for block in turn)
    kinds = ("tool_use", "tool_result")
    told = [sum(block["type"] in kinds for block in turn) for turn in blocks]
    yield sum(count != 1 for count in told), calls


def _blocks(turn: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = turn["message"]["content"]
    return content if isinstance(content, list) else []


def swe_agent(content: bytes) -> Iterator[Counts]:
    run = json.loads(content)
    if "trajectory" in run:
        yield len(run["history"]), len(run["trajectory"])
    else:
        said = [message for message in run["history"] if message["role"] != "tool"]
        yield len(said), sum(len(message.get("tool_calls") or ()) for message in said)


def openhands(content: bytes) -> Iterator[Counts]:
    is_list = content.startswith(b"[")
    for line in [content] if is_list else content.splitlines():
        history = json.loads(line) if is_list else json.loads(line)["history"]
        actions = [
            entry["action"]
            for entry in history
            if entry.get("action") and entry.get("source") != "environment"
        ]
        messages = actions.count("message")
        yield messages, len(actions) - messages


def inspect(content: bytes) -> Iterator[Counts]:
    for sample in json.loads(content)["samples"]:
        events = sample.get("events", sample.get("transcript", {}).get("events"))
        calls = sum(len(message.get("tool_calls") or ()) for message in sample["messages"])
        tools = sum(message["role"] == "tool" for message in sample["messages"])
        yield len(sample["messages"]) - (0 if events else tools), calls


SOURCES: dict[str, Callable[[bytes], Iterator[Counts]]] = {
    "tau-bench": tau_bench,
    "claude-code": claude_code,
    "swe-agent": swe_agent,
    "openhands": openhands,
    "inspect-ai": inspect,
}


def events_in(path: Path) -> Iterator[RunEvent]:
    """The events of the first runs in a file."""
    found = format_of(path)
    assert found is not None
    wanted: dict[str, None] = {}
    with open_source(path, NOW_US) as (source, _):
        for event in found.read(source):
            wanted.setdefault(event.run_id)
            if len(wanted) > RUNS_A_FILE:
                break
            yield event


def files_of(shared: Path, name: str) -> list[Path]:
    files = sorted((shared / "samples/runs" / name).glob("*.gz"))
    return [file for file in files if file.name != "users.json.gz"]


@pytest.fixture(scope="module")
def records(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[tuple[Counts, dict[str, Any]]]]:
    """What each run of a source counts, with its record; all time-outs are over."""
    known: dict[str, list[tuple[Counts, dict[str, Any]]]] = {}

    def made(name: str) -> list[tuple[Counts, dict[str, Any]]]:
        if name not in known:
            files = files_of(shared, name)
            events = [event for file in files for event in events_in(file)]
            folder = tmp_path_factory.mktemp(name) / "lake"
            lake = ingest_events(folder, events, NOW_US, idle=True)
            rows = {row["run_id"]: row for row in dataset(lake, "runs").to_table().to_pylist()}
            counts = [
                each for file in files for each in SOURCES[name](gzip.decompress(file.read_bytes()))
            ]
            runs = dict.fromkeys(event.run_id for event in events)
            known[name] = list(zip(counts, (rows[run] for run in runs), strict=True))
        return known[name]

    return made


@pytest.mark.parametrize("name", SOURCES)
def test_messages_and_calls_are_as_many_as_in_the_source(
    name: str, records: Callable[[str], list[tuple[Counts, dict[str, Any]]]]
) -> None:
    found = records(name)
    assert len(found) >= 5
    for (messages, calls), record in found:
        steps, effects = record["steps"], record["effects"]
        said = steps["messages"]
        if name == "claude-code":
            said += steps["model_responses"]
        assert said == messages
        assert steps["tool_requests"] + effects["intended"] == calls
        assert (record["holes"], record["doubled"]) == (0, 0)


LACKING = {
    "tau-bench": {"policy", "environment", "integrations", "models", "outputs"},
    "claude-code": {"code", "policy", "environment", "task", "integrations", "authority"},
    "swe-agent": {"integrations", "models"},
    "openhands": {"policy", "environment", "integrations", "authority"},
    "inspect-ai": {"code", "integrations", "outputs", "authority"},
}


@pytest.mark.parametrize("name", SOURCES)
def test_records_declare_what_the_format_has_no_place_for(
    name: str, records: Callable[[str], list[tuple[Counts, dict[str, Any]]]]
) -> None:
    for _, record in records(name):
        declared = {row for row, state in states(record).items() if state == "declared missing"}
        assert LACKING[name] <= declared
        assert not record["complete"]
        assert all(gap["cost"] for gap in record["missing"])


def test_a_run_of_tau_bench_has_no_repository_to_speak_of(
    records: Callable[[str], list[tuple[Counts, dict[str, Any]]]],
) -> None:
    assert {states(record)["code"] for _, record in records("tau-bench")} == {"not applicable"}


@pytest.mark.parametrize("name", SOURCES)
def test_a_run_ends_as_its_file_says_or_is_abandoned_when_its_time_is_over(
    name: str, records: Callable[[str], list[tuple[Counts, dict[str, Any]]]]
) -> None:
    for _, record in records(name):
        has_end = ("steps.end", "missing") not in gaps(record)
        assert (record["status"] in ("completed", "failed")) == has_end
        assert (record["status"] == "abandoned") == (not has_end)
    statuses = {record["status"] for _, record in records(name)}
    assert (statuses == {"abandoned"}) == (name == "claude-code")
