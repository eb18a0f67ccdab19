"""`redactory runs` as a user types it, on the runs of the demo agent."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from demo_lake import demo_lake, ingest_events
from running import redactory, succeed

from pipeline.demo_agent.agent import demo_events
from pipeline.lake.parquet import from_parquet, to_parquet

NOW_US = time.time_ns() // 1_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "lake"
    demo_lake(folder, NOW_US, runs=9)
    return folder


def test_runs_are_listed_by_pages_and_filters(lake: Path) -> None:
    every = json.loads(succeed("runs", "list", "--lake", lake, "--json"))
    assert len(every) == 10, "nine runs, one of them tried again"
    page = json.loads(
        succeed("runs", "list", "--lake", lake, "--json", "--limit", "3", "--offset", "2")
    )
    assert page == every[2:5]
    (failed,) = json.loads(succeed("runs", "list", "--lake", lake, "--json", "--status", "failed"))
    assert not failed["complete"]
    lacking = succeed("runs", "list", "--lake", lake, "--json", "--missing", "outputs")
    assert json.loads(lacking) == [failed]
    lines = succeed("runs", "list", "--lake", lake, "--incomplete").splitlines()
    assert len(lines) == 2 and failed["run_id"] in lines[1]


def test_a_run_is_shown_as_text_json_and_page(lake: Path, tmp_path: Path) -> None:
    run = json.loads(succeed("runs", "list", "--lake", lake, "--json"))[0]["run_id"]
    text = succeed("runs", "show", run, "--lake", lake)
    assert "run.finished" in text and "bytes" in text
    shown = json.loads(succeed("runs", "show", run, "--lake", lake, "--json"))
    assert shown["records"][0]["events"] == len(shown["events"])
    succeed("runs", "show", run, "--lake", lake, "--html", tmp_path / "run.html")
    assert run in (tmp_path / "run.html").read_text()


def test_a_decision_of_the_demo_is_traced_through_what_it_rests_on_to_its_task(lake: Path) -> None:
    runs = json.loads(succeed("runs", "list", "--lake", lake, "--json", "--status", "completed"))
    assert {run["attempt"] for run in runs} == {1, 2}
    for run in {run["attempt"]: run for run in runs}.values():
        hops = json.loads(succeed("runs", "trace", run["run_id"], "--lake", lake, "--json"))
        attempts = ["attempt"] * run["attempt"]
        assert [hop["what"] for hop in hops] == ["decision", "artifact", *attempts, "task"]
        assert all(hop["holds"] and hop["event_id"] and hop["file"] for hop in hops)


def artifact_changed(lake: Path, change: Callable[[pa.Table, Any], pa.Table]) -> None:
    """Changes files of events behind the lake's back."""
    for path in lake.glob("events/**/*.parquet"):
        rows = from_parquet(path.read_bytes())
        is_it = pc.equal(rows["kind"], "artifact.produced")
        path.write_bytes(to_parquet(change(rows, is_it)))


def altered(rows: pa.Table, is_it: Any) -> pa.Table:
    bodies = pc.if_else(is_it, pc.replace_substring(rows["body"], "artifacts/", "x/"), rows["body"])
    return rows.set_column(rows.schema.get_field_index("body"), rows.schema.field("body"), bodies)


def removed(rows: pa.Table, is_it: Any) -> pa.Table:
    return rows.filter(pc.invert(is_it))


@pytest.mark.parametrize(
    ("change", "said"), [(altered, "not the one the record was made from"), (removed, "removed")]
)
def test_a_trace_stops_at_an_artifact_that_was_altered_or_removed(
    tmp_path: Path, change: Callable[[pa.Table, Any], pa.Table], said: str
) -> None:
    run = list(demo_events(1, 1, NOW_US))
    ingest_events(tmp_path / "lake", run, NOW_US)
    succeed("runs", "trace", run[0].run_id, "--lake", tmp_path / "lake")
    artifact_changed(tmp_path / "lake", change)
    done = redactory("runs", "trace", run[0].run_id, "--lake", tmp_path / "lake")
    assert done.returncode == 1
    assert said in done.stdout and "task" not in done.stdout
    assert "so what was reviewed may have changed behind its link since" in done.stdout


def test_a_trace_stops_at_an_artifact_that_has_expired(tmp_path: Path) -> None:
    then_us = NOW_US - 10 * 24 * 3_600_000_000
    run = [
        replace(event, retention_class="debug") if event.kind == "artifact.produced" else event
        for event in demo_events(1, 1, then_us)
    ]
    ingest_events(tmp_path / "lake", run, then_us)
    succeed("retention", "sweep", "--lake", tmp_path / "lake")
    done = redactory("runs", "trace", run[0].run_id, "--lake", tmp_path / "lake")
    assert done.returncode == 1
    assert (
        "✗ artifact: perhaps one that is gone: its event has expired" in done.stdout
        and "task" not in done.stdout
    )


def test_a_trace_that_breaks_is_exit_code_1(tmp_path: Path) -> None:
    run = [event for event in demo_events(1, 1, NOW_US) if event.kind != "task.captured"]
    ingest_events(tmp_path / "lake", run, NOW_US)
    done = redactory("runs", "trace", run[0].run_id, "--lake", tmp_path / "lake")
    assert done.returncode == 1
    assert "no task snapshot was recorded" in done.stdout


def test_an_unknown_run_is_wrong_usage(lake: Path) -> None:
    unknown = redactory("runs", "trace", "no-such-run", "--lake", lake)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no run with this id" in unknown.stderr
