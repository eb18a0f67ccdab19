"""What the documentation offers for CI and pre-commit, done."""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml

RULES = """name: ours
version: "1"
rules:
  - {id: our-key, kind: secret, label: SECRET, pattern: 'ours_[a-z]{8}', reason: r, owner: o,
     matches: ['ours_{{lower:8}}']}
"""
ALLOWANCE = "allow:\n  - {pattern: 'ours_[a-z]{8}', reason: r}\n"


@pytest.fixture
def page(checkout: Path) -> str:
    return (checkout / "docs/rules.md").read_text()


@pytest.fixture
def repository(tmp_path: Path, page: str) -> Path:
    """Rules, and the labelled lines of the page."""
    (tmp_path / "my-rules.yaml").write_text(RULES)
    lines = re.findall(r'^    (\{"(?:text|event)": .*\})$', page, re.MULTILINE)
    assert len(lines) == 3
    (tmp_path / "labelled.jsonl").write_text("\n".join(lines))
    return tmp_path


def run(command: str, folder: Path) -> int:
    scripts = sysconfig.get_path("scripts")
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, timeout=150
    )
    return done.returncode


def test_the_job_passes_good_rules_and_fails_bad_ones(repository: Path, page: str) -> None:
    (text,) = re.findall(r"^    name: rules\n(?:    .*\n)+", page, re.MULTILINE)
    (job,) = yaml.safe_load(text.replace("\n    ", "\n").strip())["jobs"].values()
    first, *commands = [step["run"] for step in job["steps"] if "run" in step]
    assert first == "pip install redactory"
    assert [run(command, repository) for command in commands] == [0, 0, 0]
    (repository / "my-rules.yaml").write_text(RULES + ALLOWANCE)
    assert [run(command, repository) for command in commands] == [0, 1, 1]


def test_the_hooks_run_as_they_are_shown(repository: Path, checkout: Path, page: str) -> None:
    hooks = yaml.safe_load((checkout / ".pre-commit-hooks.yaml").read_text())
    entries = {hook["id"]: hook["entry"] for hook in hooks}
    (text,) = re.findall(r"^    repos:\n(?:    .*\n)+", page, re.MULTILINE)
    (shown,) = yaml.safe_load(text.replace("\n    ", "\n").strip())["repos"]
    commands = [" ".join([entries[hook["id"]], *hook["args"]]) for hook in shown["hooks"]]
    assert len(commands) == len(entries) == 2
    assert [run(command, repository) for command in commands] == [0, 0]
    (repository / "my-rules.yaml").write_text(RULES.replace("reason: r", "reason: ''"))
    assert [run(command, repository) for command in commands] == [1, 2]
