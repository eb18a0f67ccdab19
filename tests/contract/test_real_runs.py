"""Real agent runs through the whole pipeline: complete, in order, masked where people are named."""

import contextlib
import gzip
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import ingest, query, succeed

TAU_BENCH = "samples/runs/tau-bench/gpt-4o-airline.json.gz"


@pytest.fixture(scope="module")
def tau_bench(
    bootstrap: str, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[dict[str, Any]], Path]:
    """The source's trajectories and the lake they were ingested into."""
    folder = tmp_path_factory.mktemp("tau-bench")
    topic = f"tau-bench-{time.time_ns()}"
    emit = ("emit", shared / TAU_BENCH, "--format", "tau-bench", "--topic", topic)
    succeed(*emit, "--bootstrap", bootstrap)
    report = ingest(bootstrap, topic, folder / "lake", folder / "keys.json")
    assert report["dead_letter_codes"] == {}
    source = json.loads(gzip.decompress((shared / TAU_BENCH).read_bytes()))
    return source, folder / "lake"


def test_every_trajectory_is_a_run(tau_bench: tuple[list[Any], Path]) -> None:
    assert query(tau_bench[1], "SELECT count(DISTINCT run_id) AS n FROM events") == [{"n": 200}]


def test_every_message_is_there_once_in_order_and_equal_outside_what_is_declared(
    tau_bench: tuple[list[Any], Path],
) -> None:
    source, lake = tau_bench
    rows = query(
        lake,
        "SELECT run_id, body, redactions FROM events WHERE kind IN ('message', 'tool.responded', "
        "'effect.completed') ORDER BY kafka_offset",
    )
    started = query(
        lake, "SELECT run_id, body FROM events WHERE kind = 'run.started' ORDER BY kafka_offset"
    )
    stored: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in started:
        body = json.loads(row["body"])
        stored[body["task_id"], body["trial"]] = [r for r in rows if r["run_id"] == row["run_id"]]
    assert len(stored) == 200
    for run in source:
        found = stored[run["task_id"], run["trial"]]
        for message, row in zip(run["traj"], found, strict=True):
            _same_outside_declared(message, row)


def test_the_lines_of_claude_code_are_there_once_in_order(
    bootstrap: str, shared: Path, tmp_path: Path
) -> None:
    topic, lake = f"claude-code-{time.time_ns()}", tmp_path / "lake"
    files = sorted((shared / "samples/runs/claude-code").glob("*.jsonl.gz"))
    emit = ("emit", *files, "--format", "claude-code", "--topic", topic)
    succeed(*emit, "--bootstrap", bootstrap, "--partitions", "1")
    ingest(bootstrap, topic, lake, tmp_path / "keys.json")
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    rows = query(
        lake,
        "SELECT body, redactions FROM events WHERE kind <> 'input.declared' ORDER BY kafka_offset",
    )
    verbatim = [row for row in rows if json.loads(row["body"]).keys() != {"event_id", "pointer"}]
    assert len(lines) == 524
    for line, row in zip(lines, verbatim, strict=True):
        _same_outside_declared(json.loads(line), row)


def _same_outside_declared(source: Any, row: dict[str, Any]) -> None:
    declared = {redaction["path"] for redaction in row["redactions"]}
    assert _changed_paths(source, json.loads(row["body"])) <= declared


def _changed_paths(before: Any, after: Any, path: str = "") -> set[str]:
    """JSON pointers of the places where two values of one shape differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return {p for k in before for p in _changed_paths(before[k], after[k], f"{path}/{k}")}
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return {p for index, pair in pairs for p in _changed_paths(*pair, f"{path}/{index}")}
    return set() if before == after else {path}


def test_values_of_people_in_fields_are_masked_and_facts_of_flights_are_not(
    tau_bench: tuple[list[Any], Path], shared: Path
) -> None:
    source, lake = tau_bench
    users = json.loads(
        gzip.decompress((shared / "samples/runs/tau-bench/users.json.gz").read_bytes())
    )
    rows = query(
        lake,
        "SELECT body FROM events WHERE kind IN ('tool.requested', 'tool.responded', "
        "'effect.intended', 'effect.completed')",
    )
    fields = [f for row in rows for f in _fields(json.loads(row["body"]))]
    people = {user["email"] for user in users.values()}
    people |= {user["address"]["address1"] for user in users.values()}
    people |= {user["dob"] for user in users.values()}
    names = {user["name"]["first_name"] for user in users.values()}
    names |= {user["name"]["last_name"] for user in users.values()}
    named = {"first_name", "last_name", "email", "address1", "dob"}
    assert any(name in named for name, _ in fields)
    assert [n for n, value in fields if value in people] == []
    assert [n for n, value in fields if n in named and value in names] == []
    flights = Counter(value for name, value in fields if name == "flight_number")
    before = Counter(
        value
        for run in source
        for message in run["traj"]
        for name, value in _fields(message)
        if name == "flight_number"
    )
    assert flights == before
    assert all(value[:4] == "2024" for name, value in fields if name == "date")
    assert all(isinstance(value, int | float) for name, value in fields if name == "price")


def _fields(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every (name, scalar) of a JSON value, through JSON text in strings too."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with contextlib.suppress(json.JSONDecodeError):
            value = json.loads(value)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _fields(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _fields(item, name)
    else:
        yield name, value
