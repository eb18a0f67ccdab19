"""`redactory runs` as a user types it, on the runs of the demo agent."""

import json
import time
from pathlib import Path

import pytest
from demo_lake import demo_lake, ingest_events
from running import redactory, succeed

from pipeline.demo_agent.agent import demo_events

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


def test_a_decision_of_the_demo_is_traced_to_its_task(lake: Path) -> None:
    run = json.loads(succeed("runs", "list", "--lake", lake, "--json", "--status", "completed"))
    hops = json.loads(succeed("runs", "trace", run[0]["run_id"], "--lake", lake, "--json"))
    assert [hop["what"] for hop in hops][:1] == ["decision"]
    assert hops[-1]["what"] == "task" and hops[-1]["holds"]


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
