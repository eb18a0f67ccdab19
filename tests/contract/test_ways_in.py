"""What goes in by `emit` and a topic, and by `ingest --from`, is the same but for its place."""

import gzip
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from otel_samples import Telemetry
from running import ingest, kill, start, succeed, until

from pipeline.formats import FORMATS, format_of
from pipeline.lake.live import open_lake
from pipeline.lake.query import connect
from schemas import RunEvent, encode_json

RUNS_A_FILE = 4
AT = "2026-02-27T10:00:00+00:00"
EMAIL = "jane.doe" + "@" + "corp-mail.example"
"""Stands in each file that is made here."""

TABLES = {
    "events": "event_id, run_id, parent_run_id, attempt, sequence, kind, kind_name, name, call_id, "
    "body, subjects, producer, redactions, ruleset, key_id, retention_class, requested_class, "
    "retention_from, occurred_at = captured_at AS is_untimed, "
    "CASE WHEN occurred_at <> captured_at THEN occurred_at END AS at",
    "runs": "run_id, attempt, version, status, complete, steps.messages, steps.tool_requests, "
    "completeness, missing, events, doubled, holes, redactions, effects",
}
"""All but coordinates and what follows from the time of the import."""


def made_files(folder: Path) -> None:
    """A small file of each format of which there are no shared samples."""
    say = {"messages": [{"role": "user", "content": f"Write to {EMAIL}"}]}
    events = [
        RunEvent(
            event_id=f"event-{n}", run_id="run-of-events", sequence=n, kind=kind,
            occurred_at=time.time_ns() // 1_000, body=json.dumps(say),
        )
        for n, kind in enumerate(("run.started", "message", "run.finished"))
    ]  # fmt: skip
    (folder / "events.jsonl").write_bytes(b"\n".join(map(encode_json, events)))
    span = {"id": "trace-1", "trace_id": "trace-1", "run_type": "chain", "start_time": AT}
    (folder / "spans.jsonl").write_text(json.dumps(span | {"end_time": AT, "inputs": say}))
    cassette = {
        "interactions": [
            {
                "request": {"uri": "https://models.test/v1", "body": json.dumps(say)},
                "response": {"status": {"code": 200}, "body": {"string": "{}"}},
            }
        ]
    }
    for name in ("json", "proto"):
        telemetry = Telemetry({"service.name": name})
        with telemetry.tracer.start_as_current_span("step", attributes={"note": json.dumps(say)}):
            pass
        written = telemetry.as_json() if name == "json" else telemetry.as_proto()
        (folder / f"spans.{name}").write_bytes(written)
    (folder / "cassette.yaml").write_text(yaml.safe_dump(cassette))
    with zipfile.ZipFile(folder / "log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "eval": {"task": "t"}}))
        archive.writestr("samples/1.json", json.dumps({"id": 1, "epoch": 1, "input": "x"} | say))


def beginning(file: Path) -> bytes:
    """A whole file, or the first runs of a list of many."""
    content = gzip.decompress(file.read_bytes())
    if len(content) < 2_000_000 or not content.startswith(b"["):
        return gzip.compress(content, 1)
    return gzip.compress(json.dumps(json.loads(content)[:RUNS_A_FILE]).encode(), 1)


@pytest.fixture(scope="module")
def samples(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every format: the shared samples, and one of each other format."""
    folder = tmp_path_factory.mktemp("samples")
    made_files(folder)
    for source in sorted((shared / "samples/runs").iterdir()):
        (folder / source.name).mkdir()
        for file in source.glob("*.gz"):
            (folder / source.name / file.name).write_bytes(beginning(file))
    return folder


def test_both_ways_lead_to_the_same_rows(
    samples: Path, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    found = [format_of(path) for path in samples.rglob("*") if path.is_file()]
    assert {each.name for each in found if each} == FORMATS.keys()

    topic, keys, paths = make_topic(partitions=2), tmp_path / "keys.json", [str(samples)]
    by_topic, by_file = tmp_path / "by-topic", tmp_path / "by-file"
    succeed("emit", *paths, "--bootstrap", bootstrap, "--topic", topic)
    emitted = ingest(bootstrap, topic, by_topic, keys, "--workers", "2")
    read = json.loads(
        succeed("ingest", "--from", *paths, "--lake", by_file, "--keys", keys, "--json")
    )
    same = ("events", "dead_letters", "refused")
    assert [read["counts"][name] for name in same] == [emitted["counts"][name] for name in same]
    assert read["redactions"] == emitted["redactions"]
    for table, columns in TABLES.items():
        order = "sequence" if table == "events" else "version"
        sql = f"SELECT {columns} FROM {table} ORDER BY run_id, attempt, {order}"
        rows = rows_of(by_topic, sql)
        assert rows and rows_of(by_file, sql) == rows, table
    assert not rows_of(by_file, f"SELECT 1 FROM events WHERE contains(body, '{EMAIL}')")
    succeed("verify", "--lake", by_file, "--keys", keys, "--structure-only")


def rows_of(folder: Path, sql: str) -> list[dict[str, Any]]:
    with connect(open_lake(folder)) as session:
        return session.sql(sql).to_arrow_table().to_pylist()


def test_killed_in_the_middle_of_files_it_goes_on_where_the_lake_ends(tmp_path: Path) -> None:
    folder, lake, keys = tmp_path / "runs", tmp_path / "lake", tmp_path / "keys.json"
    folder.mkdir()
    for file in range(3):
        turns = [
            {"type": "user", "sessionId": f"s-{file}", "message": {"content": f"turn {n}"}}
            for n in range(200)
        ]
        (folder / f"{file}.jsonl").write_text("\n".join(map(json.dumps, turns)))
    words = ["ingest", "--from", folder, "--lake", lake, "--keys", keys]
    going = start(*words, "--slice-records", "20", "--no-sweep")
    until(lambda: len(list(lake.glob("_log/*/0/*.commit"))) >= 5, "some slices are stored")
    kill(going)
    assert len(list(lake.glob("_log/*"))) < 6  # a part of the files
    succeed(*words, "--no-sweep")
    counts = "count(*) AS n, count(DISTINCT body) AS d, count(DISTINCT kafka_offset) AS o"
    found = rows_of(lake, f"SELECT {counts} FROM events WHERE kind = 'message'")
    assert found == [{"n": 600, "d": 600, "o": 200}]
