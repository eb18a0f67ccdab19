"""Recorded runs as test cases in a suite of somebody else's."""

import os
import subprocess
import sys
from pathlib import Path

from replay_samples import KEYS, RULESET, record

from pipeline.emitter import World
from pipeline.replay.bundle import write_bundle

SUITE = """
import pytest


@pytest.mark.recorded_runs("runs.bundle", agent="suite_agent:agent")
def test_the_agent_does_what_it_did(replayed):
    assert replayed.outcome == "same", replayed.stopped


def test_that_asks_for_no_run(request):
    assert "replayed" not in request.fixturenames
"""
AGENT = """
def agent(world, task):
    return world.tool("tick", {"n": task["n"]}, None) if task["n"] < 2 else "nothing"
"""


def test_each_recorded_run_is_a_case_and_fails_by_itself(tmp_path: Path) -> None:
    def agent(world: World, task: dict[str, int]) -> None:
        world.tool("tick", {"n": task["n"]}, lambda asked: "tock")

    runs = [record(agent, {"n": number}, run_id=f"run-{number}") for number in range(3)]
    with (tmp_path / "runs.bundle").open("wb") as file:
        write_bundle(file, runs, RULESET, None)
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "suite_agent.py").write_text(AGENT)
    keys = tmp_path.with_name("plugin-keys.json")
    KEYS.save(keys)
    known = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*known, "-p", "pipeline.pytest_plugin", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "REDACTORY_KEYS": str(keys), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert "3 passed, 1 failed" in done.stdout or "1 failed, 3 passed" in done.stdout, done.stdout
    assert "PASSED test_suite.py::test_the_agent_does_what_it_did[run-0]" in done.stdout
    assert "FAILED test_suite.py::test_the_agent_does_what_it_did[run-2]" in done.stdout
