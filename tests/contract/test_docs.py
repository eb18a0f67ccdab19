"""The documents: their commands run, their links lead somewhere, their site builds."""

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_lines import options, parse
from documented import blocks, run_page

from pipeline.broker import stop as stop_broker

ROOT = Path(__file__).parents[2]
RUN = ("tutorial", "emitting", "querying", "reviewing", "operations")
"""Pages whose commands are run as they stand, in this order and in one folder."""

DOCUMENTS = sorted(
    [
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("deploy/**/*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")),
    ]
)


@pytest.fixture(scope="module")
def port(free_port: Callable[[], int]) -> int:
    """Where the broker of the tutorial listens."""
    return free_port()


@pytest.fixture(scope="module")
def after_tutorial(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Path]:
    """The folder in which the tutorial was done, and nothing running when it is left."""
    folder = tmp_path_factory.mktemp("tutorial")
    try:
        run_page(ROOT / "docs/tutorial.md", folder, port)
        yield folder
    finally:
        stop_broker(folder / "broker")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUN[1:])
def test_a_page_runs_as_written(page: str, after_tutorial: Path, port: int) -> None:
    run_page(ROOT / f"docs/{page}.md", after_tutorial, port)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_is_run_or_says_why_not(path: Path) -> None:
    for block in blocks(path):
        if block.language != "bash":
            continue
        commands = list(_commands(block.text))
        for words in commands:
            parse(words)
        if block.mark is None:
            other = re.search(r"^(make|docker|kubectl|pip|uv|deploy/)", block.text, re.MULTILINE)
            assert path.stem in RUN or not (commands or other), f"neither run nor marked: {block}"
        elif block.mark[0] == "run by":
            assert (ROOT / block.mark[1]).is_file(), block.mark[1]


def test_every_command_named_in_a_sentence_is_one() -> None:
    named = 0
    for path in DOCUMENTS:
        for said in re.findall(r"`redactory ([a-z][^`]*)`", path.read_text().replace("\n", " ")):
            words = said.split()
            assert set(re.findall(r"--[a-z-]+", said)) <= options(words), said
            named += 1
    assert named > 40


def test_the_site_builds_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    # Not --quiet: it would keep the warnings from being counted.
    command = [sys.executable, "-P", "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(
        [*command, "--config-file", ROOT / "mkdocs.yml", "--site-dir", tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    catalogue = (tmp_path / "rule-catalogue" / "index.html").read_text()
    assert "github-token" in catalogue and "field-secret" in catalogue
    assert (tmp_path / "repository" / "ARCHITECTURE" / "index.html").is_file()


def _commands(script: str) -> Iterator[list[str]]:
    """The words after `redactory` wherever a script calls it, at the start of a command."""
    script = re.sub(r"<<'END'\n.*?\nEND\n", "\n", script.replace("\\\n", " "), flags=re.DOTALL)
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        for starts, command in itertools.groupby(lexer, key=lambda word: set(word) <= set("|&;<>")):
            words = list(command)
            if not starts and words[0] == "redactory":
                yield words[1:]
