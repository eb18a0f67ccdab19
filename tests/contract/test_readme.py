"""What the README tells a newcomer to do, done."""

import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from running import query

from pipeline.demo_agent import demo_events
from schemas import encode_json

BOOTSTRAP = "localhost:9092"


@pytest.fixture
def readme(checkout: Path, bootstrap: str) -> str:
    """The text, with the broker that the tests run."""
    text = (checkout / "README.md").read_text()
    assert BOOTSTRAP in text
    return text.replace(BOOTSTRAP, bootstrap)


def test_the_commands_do_what_they_say(readme: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    events = list(demo_events(2, seed=1, now_us=time.time_ns() // 1000))
    (tmp_path / "runs" / "two.jsonl").write_bytes(b"".join(encode_json(e) + b"\n" for e in events))
    commands = re.findall(
        r"^    (redactory (?:emit|ingest|query|verify) .*)$", readme, re.MULTILINE
    )
    assert len(commands) == 5
    for command in commands:
        _run(command, tmp_path)
    for lake in ("lake", "archive"):
        assert query(tmp_path / lake, "SELECT count(*) AS n FROM events") == [{"n": len(events)}]


def test_the_client_emits(readme: str) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)


def test_the_filter_masks(readme: str, tmp_path: Path) -> None:
    (command,) = re.findall(r"^    (echo .* redactory redact)$", readme, re.MULTILINE)
    shown = _run(command, tmp_path)
    assert '"password": "[PASSWORD]"' in shown
    assert "jane@" not in shown


def test_every_command_that_it_names_is_there(readme: str, tmp_path: Path) -> None:
    named = set(re.findall(r"redactory ([a-z]+)\b", readme))
    assert {"emit", "ingest", "query", "verify", "redact", "broker"} <= named
    for command in named:
        _run(f"redactory {command} --help", tmp_path)


def _run(command: str, folder: Path) -> str:
    scripts = sysconfig.get_path("scripts")
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "REDACTORY_KEYS": str(folder / "keys.json"),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=150,
    ).stdout
