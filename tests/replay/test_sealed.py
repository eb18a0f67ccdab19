"""A run whose content is sealed is read by no mode once its keys are gone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_lake import ingest_events
from replay_samples import KEYS, recording
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.emitter.ids import system_clock
from pipeline.errors import PipelineError
from pipeline.lake.keystore import ENVIRONMENT
from pipeline.replay.session import Kept
from pipeline.retention.policy import Policy

SEALED = {"lifetime": "30d", "bucket": "day", "action": "seal-then-shred"}
POLICY = Policy.model_validate({"default": "sealed", "classes": {"sealed": SEALED}})

MODES = {
    "forensic": ("replay", "run-1", "--mode", "forensic"),
    "recorded": ("replay", "run-1", "--agent", "agents:tick"),
    "hybrid": (
        *("replay", "run-1", "--mode", "hybrid", "--agent", "agents:tick"),
        *("--provider", "agents:tick"),
    ),
    "over": (
        *("replay", "--mode", "hybrid", "--over", "SELECT DISTINCT run_id FROM events"),
        *("--agent", "agents:tick", "--provider", "agents:tick"),
    ),
    "fresh": ("replay", "run-1", "--mode", "fresh", "--agent", "agents:tick"),
    "export": ("replay", "run-1", "--export", "never.bundle"),
    "diff": ("diff", "run-1", "run-1"),
    "resume": (
        *("resume", "run-1", "--agent", "agents:tick", "--spool", "never.spool"),
        *("--bootstrap", "127.0.0.1:1"),
    ),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake with a sealed run, and the key ring its masks are written under."""
    home = tmp_path_factory.mktemp("sealed")
    KEYS.save(home / "keys.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(home / "bucket-keys"))
        kept = Kept()
        with recording(clock=system_clock).run(None, kept, run_id="run-1") as world:
            world.tool("tick", {}, lambda asked: "tock")
        ingest_events(home / "lake", kept.events, system_clock(), keys=KEYS, policy=POLICY)
        yield home


def ask(home: Path, mode: str) -> Any:
    words = ("--lake", str(home / "lake"), "--keys", str(home / "keys.json"))
    return CliRunner().invoke(app, [*MODES[mode], *words])


def test_with_its_keys_it_is_read(home: Path) -> None:
    words = ("--lake", str(home / "lake"), "--keys", str(home / "keys.json"), "--json")
    told = json.loads(CliRunner().invoke(app, [*MODES["forensic"], *words]).stdout)
    assert [call["answer"]["content"] for call in told["calls"]] == ["tock"]
    assert ask(home, "diff").exit_code == 0


@pytest.mark.parametrize("mode", list(MODES))
def test_without_them_every_mode_refuses_it(
    home: Path, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gone = tmp_path / "gone"
    shutil.move(home / "bucket-keys", gone)
    try:
        refused = ask(home, mode).exception
    finally:
        shutil.move(gone, home / "bucket-keys")
    assert isinstance(refused, PipelineError), refused
    assert (refused.code, refused.exit_code) == ("sealed", 3)
    assert list(tmp_path.iterdir()) == []
