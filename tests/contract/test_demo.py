"""The demo, as its first user meets it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipeline.demo.run import RUNS, SEED
from pipeline.demo.show import masked_leaves
from pipeline.demo_agent import demo_events
from pipeline.lake import open_lake
from pipeline.lake.query import query


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an earlier demo has been."""
    return tmp_path_factory.mktemp("demo") / "demo"


def test_the_demo_stores_every_event_masked_and_leaves_nothing_running(home: Path) -> None:
    done = _demo(home, "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["runs"] == RUNS
    assert shown["events"] == shown["emitted"] == len(list(demo_events(RUNS, SEED, 10**15)))
    assert (shown["missing"], shown["violations"]) == (0, 0)
    assert {"person-in-prose", "named-secret", "email"} <= shown["redactions"].keys()
    assert _processes_of(home) == []
    stored = repr(list(query(open_lake(shown["lake"]), "SELECT * FROM events").rows))
    originals = _originals()
    assert len(originals) > RUNS
    assert [original for original in originals if original in stored] == []


def test_the_demo_can_be_repeated_and_speaks_to_a_person(home: Path, checkout: Path) -> None:
    done = _demo(home)
    assert done.returncode == 0, done.stderr
    assert f"{RUNS} runs" in done.stdout
    assert "verify: clean" in done.stdout
    assert str(home / "lake") in done.stdout
    assert (checkout / re.findall(r"^next: (\S+\.md),", done.stdout, re.MULTILINE)[0]).is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "demo"
    with subprocess.Popen(
        _command(home),
        env=_environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr
        for line in running.stderr:
            if line.startswith("ingesting"):
                break
        time.sleep(0.5)
        running.send_signal(number)
        assert running.wait(60) == 130
    assert _processes_of(home) == []


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = _demo(tmp_path)
    assert done.returncode == 2
    assert "thesis.txt" in done.stderr
    assert (tmp_path / "thesis.txt").exists()


def test_masks_are_shown_in_their_place_and_never_the_original() -> None:
    text = "key=[SECRET] of [EMAIL:k1:X] was rotated"
    body = json.dumps({"error": {"a/b": text}, "name": "[NAME:k1:X]"})
    redactions = [
        {"path": "/name", "rule": "name", "layers": [], "span_start": None, "span_end": None},
        {"path": "/error/a~1b", "rule": "email", "layers": [], "span_start": 16, "span_end": 28},
        {"path": "/error/a~1b", "rule": "key", "layers": [], "span_start": 4, "span_end": 12},
        {"path": "subjects", "rule": "subject", "layers": [], "span_start": None, "span_end": None},
    ]
    error, name = masked_leaves(body, redactions)
    assert error == {
        "where": "/error/a~1b",
        "rules": "key, email",
        "before": "key=██████ of ██████ was rotated",
        "after": text,
    }
    assert (name["before"], name["after"]) == ("██████", "[NAME:k1:X]")


def _originals() -> set[str]:
    """E-mail addresses and signing keys of the demo's events, as the agent emits them."""
    bodies = " ".join(event.body for event in demo_events(RUNS, SEED, 10**15))
    emails = set(re.findall(r"[\w.]+@[\w.]+\w", bodies))
    return emails | set(re.findall(r"signing_key=([0-9a-f]{64})", bodies))


def _command(home: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "pipeline", "demo", "--dir", str(home), *options]


def _demo(home: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        _command(home, *options),
        env=_environment(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )


def _environment(home: Path) -> dict[str, str]:
    """Marks every process that the demo starts, directly or not."""
    return {**os.environ, "DEMO_UNDER_TEST": str(home)}


def _processes_of(home: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("DEMO_UNDER_TEST") == str(home):
                found.append(process)
        except psutil.Error:
            continue  # another user's, or just gone
    return found
