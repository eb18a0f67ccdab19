"""What a trial can see is its bundle: an agent that searches its world finds nothing else."""

from pathlib import Path
from typing import Any

import pytest
from replay_samples import NOW_US, RULES, RULESET, player, record, refuse

from pipeline.emitter import MatchingPolicy, World
from pipeline.replay.batch import Batch, Setting
from pipeline.replay.bundle import read_bundle, trial_of, write_bundle
from pipeline.replay.record import RecordedRun

HERE = Path(__file__).parent
WORD = ("quo", "kka", "-7311")
"""Put together where it is used, so that no program text holds it."""


def telling(world: World, task: Any) -> Any:
    found = world.tool("tick", {}, lambda asked: "tock")
    world.decision("".join(WORD), actor="agent")
    world.message("assistant", "".join(WORD))
    world.artifact("report", uri="".join(WORD))
    return found


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    task = {"word": list(WORD), "places": [str(tmp_path)]}
    return record(telling, task)


def test_a_trial_has_fixtures_and_inputs_and_no_outcome(run: RecordedRun) -> None:
    trial = trial_of(run)
    assert [call["place"][2] for call in trial["calls"]] == ["tick"]
    assert trial["task"] == run.task
    assert "".join(WORD) in repr(run.events) and "".join(WORD) not in repr(trial)


def test_an_agent_that_searches_its_world_finds_neither_archive_nor_outcome(
    run: RecordedRun, tmp_path: Path
) -> None:
    archive = tmp_path / "lake"
    archive.mkdir()
    (archive / "later-run.parquet").write_text("".join(WORD))
    setting = Setting((HERE,), (archive,))
    with Batch("agents:searches", RULES, MatchingPolicy(), NOW_US, setting) as batch:
        done = batch.recorded(run)
    assert done.returned == ["tock", []]
    free = Setting((HERE,), (archive,), use_kernel=False, accept_audit_hook=True)
    with Batch("agents:searches", RULES, MatchingPolicy(), NOW_US, free) as batch:
        found = batch.recorded(run).returned[1]
    assert str(archive / "later-run.parquet") in found, "the search itself must be able to find it"


def test_a_bundle_holds_runs_their_rules_and_a_deadline(run: RecordedRun, tmp_path: Path) -> None:
    path = tmp_path / "runs.bundle"
    with path.open("wb") as file:
        write_bundle(file, [run], RULESET, NOW_US + 5)
    bundle = read_bundle(path)
    assert (bundle.deadline_us, bundle.ruleset) == (NOW_US + 5, RULESET)
    (trial,) = bundle.runs()
    assert [call.deadline_us for call in trial.calls] == [NOW_US + 5]
    assert player().recorded(trial, ticks).outcome == "same"
    assert player(now_us=NOW_US + 5).recorded(trial, ticks).outcome == "expired"


def ticks(world: World, task: Any) -> Any:
    return world.tool("tick", {}, refuse)
