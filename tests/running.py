"""Runs the command line as a user does: the installed package, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-P", "-m", "pipeline"]


def redactory(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, **environment},
    )


def succeed(*words: str | Path, **environment: str) -> str:
    """Runs one command that must end well; gives its stdout."""
    done = redactory(*words, **environment)
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def start(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Starts one command in a process group of its own, so that all of it can be killed."""
    return subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """`kill -9` of a command with all its workers."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ingest(bootstrap: str, topic: str, lake: Path, keys: Path, *more: str) -> dict[str, Any]:
    """Ingests until caught up; gives the report."""
    report: dict[str, Any] = json.loads(
        succeed(
            *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake),
            *("--keys", keys, "--until-caught-up", "--json", *more),
        )
    )
    return report


def query(lake: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query over a lake."""
    found: list[dict[str, Any]] = json.loads(succeed("query", sql, "--lake", lake, "--json"))
    return found


def until(holds: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Waits until something holds; fails with `what` if it never does."""
    end_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end_s, f"never happened: {what}"
        time.sleep(0.1)
