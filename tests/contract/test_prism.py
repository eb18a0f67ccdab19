"""The main path on Prism, by Beam's portable interfaces: unbounded, killed in the middle."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from crash.canaries import Search
from running import kill, start, until
from scale import commits, holds_each_once, produce

from pipeline.lake.live import open_lake

MakeTopic = Callable[..., str]
PARTITIONS = 4

ALL = 400 * PARTITIONS / 40
"""Commits that the first messages take, at least."""


@pytest.fixture(scope="module")
def prism(checkout: Path) -> Path:
    """The runner, built if it is not there."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: Prism, Beam's portable runner, is built with it")
    done = subprocess.run([checkout / "deploy/prism/build"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.timeout(900)
def test_killed_in_the_middle_and_started_again_it_loses_and_doubles_nothing(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, prism: Path
) -> None:
    topic, lake, keys = make_topic(partitions=PARTITIONS), tmp_path / "lake", tmp_path / "keys.json"
    words = ["ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake, "--keys", keys]
    words += ["--slice-records", "40", "--flush-interval-s", "0.5", "--json"]
    words += ["--", "--runner=PrismRunner", f"--prism_location={prism}"]
    secret = "-".join(["grey", "plover", "8317"])
    produce(bootstrap, topic, PARTITIONS, range(400), secret)
    running = start(*words, TMPDIR=str(tmp_path))
    until(lambda: commits(lake, topic) >= 4, "the first commits", 120)
    kill(running)  # `kill -9` of all: ingest, worker, Prism
    killed_at = commits(lake, topic)
    assert killed_at < ALL, "it was killed in the middle"
    running = start(*words, TMPDIR=str(tmp_path))
    try:
        until(lambda: commits(lake, topic) >= killed_at + 4, "it goes on", 120)
        _prisms(running.pid)[0].kill()
        assert commits(lake, topic) < ALL, "its Prism was killed in the middle"
        produce(bootstrap, topic, PARTITIONS, range(400, 500), secret)
        until(lambda: _stored(lake) == 500 * PARTITIONS, "what came meanwhile is stored", 120)
        left = _prisms(running.pid)
        running.terminate()
        out, err = running.communicate(timeout=60)
        assert running.returncode == 0, err
    finally:
        if running.poll() is None:
            kill(running)
    assert json.loads(out)["restarts"] >= 1
    until(lambda: not any(each.is_running() for each in left), "no Prism is left")
    holds_each_once(lake, keys, 500 * PARTITIONS)
    assert secret not in out + err
    assert Search([secret]).in_folders(tmp_path) == {}


def _stored(lake: Path) -> int:
    return sum(file.rows for file in open_lake(lake).files["events"])


def _prisms(pid: int) -> list[psutil.Process]:
    children = psutil.Process(pid).children(recursive=True)
    return [each for each in children if each.name() == "prism"]
