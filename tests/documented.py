"""Commands in documents: found, told apart, and run as a reader would."""

import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n)((?:    .*\n|\n(?=    ))+)")
_MARK = re.compile(r"<!-- (not run|run by): ([^>]+) -->\n+$")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document; `mark` is what the comment before it says: how, and why or where."""

    language: str
    text: str
    mark: tuple[str, str] | None


def blocks(path: Path) -> Iterator[Block]:
    """The fenced and indented blocks of a Markdown file, in order; an indented one is bash."""
    text = path.read_text()
    found = [(each.start(), each[1], each[2]) for each in _FENCE.finditer(text)]
    plain = _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0].replace("    ", "   x")), text)
    for each in _INDENTED.finditer(plain):
        if each[0].strip() and "   x" not in each[0]:
            found.append((each.start(), "bash", re.sub(r"^    ", "", each[0], flags=re.MULTILINE)))
    for start, language, body in sorted(found):
        mark = _MARK.search(text[:start])
        yield Block(language, body, (mark[1], mark[2]) if mark else None)


def run_page(path: Path, folder: Path, port: int) -> None:
    """Runs the unmarked bash blocks of a page in order; a text block after one is in its output."""
    said = ""
    for block in blocks(path):
        if block.mark:
            continue
        if block.language == "bash":
            said = _run(block.text, folder, port)
        elif block.language == "text":
            for line in block.text.splitlines():
                assert _squeezed(line) in _squeezed(said), f"{path.name} does not print: {line}"


def _run(script: str, folder: Path, port: int) -> str:
    script = script.replace("localhost:9092", f"localhost:{port}")
    script = script.replace("redactory broker start", f"redactory broker start --port {port}")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}",
            "PYTHONSAFEPATH": "1",
            "REDACTORY_KEYS": str(folder / "keys.json"),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, (script, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def _squeezed(text: str) -> str:
    return " ".join(text.split())
