"""How an ingest speaks to whoever runs it, on stderr: to a person, or in JSON to a program."""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

EVERY_S: Final = 10.0
"""How often a line of progress is printed where nobody looks on; a change of state at once."""

LogFormat = Literal["text", "json"]
Level = Literal["info", "warning", "error"]


class Voice(Protocol):
    """Says sentences as they come, and how it goes now and then."""

    def say(self, sentence: str, level: Level = "info") -> None:
        """Says one sentence of our own."""

    def fail(self, sentence: str, hint: str) -> None:
        """Says why the ingest ends and what to do; the command line says it to a person."""

    def show(self, line: str, state: str, fields: Mapping[str, Any]) -> None:
        """Shows how it goes, at once if `state` is another than before; "": all is well."""


@contextmanager
def voice(log_format: LogFormat) -> Iterator[Voice]:
    """The voice for a format."""
    console = Console(stderr=True)
    if log_format == "json":
        yield JsonLines()
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            yield Terminal(console, live)
    else:
        yield Lines(console)


class Terminal:
    """A live line, and sentences above it."""

    def __init__(self, console: Console, live: Live) -> None:
        self._console, self._live = console, live

    def say(self, sentence: str, level: Level = "info") -> None:
        """Says one sentence."""
        _print(self._console, sentence)

    def fail(self, sentence: str, hint: str) -> None:
        """Leaves it to the command line."""

    def show(self, line: str, state: str, fields: Mapping[str, Any]) -> None:
        """Puts the line in place of the one before."""
        self._live.update(Text(line))


class _NowAndThen:
    """Whether a line is due."""

    def __init__(self) -> None:
        self._last_s, self._state = -math.inf, ""

    def is_due(self, state: str) -> bool:
        due = state != self._state or time.monotonic() - self._last_s >= EVERY_S
        if due:
            self._last_s, self._state = time.monotonic(), state
        return due


class Lines:
    """A line now and then."""

    def __init__(self, console: Console) -> None:
        self._console, self._due = console, _NowAndThen()

    def say(self, sentence: str, level: Level = "info") -> None:
        """Says one sentence."""
        _print(self._console, sentence)

    def fail(self, sentence: str, hint: str) -> None:
        """Leaves it to the command line."""

    def show(self, line: str, state: str, fields: Mapping[str, Any]) -> None:
        """Prints the line if it is due."""
        if self._due.is_due(state):
            _print(self._console, line)


class JsonLines:
    """One JSON object a line: `time` (ISO 8601, UTC), `level`, `message`, and numbers."""

    def __init__(self) -> None:
        self._due = _NowAndThen()

    def say(self, sentence: str, level: Level = "info") -> None:
        """Says one sentence."""
        self._write(level, sentence, {})

    def fail(self, sentence: str, hint: str) -> None:
        """Says it, too: a program reads these lines only."""
        self._write("error", sentence, {"hint": hint})

    def show(self, line: str, state: str, fields: Mapping[str, Any]) -> None:
        """Writes the line and its numbers if it is due."""
        if self._due.is_due(state):
            self._write("warning" if state else "info", line, fields)

    def _write(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "message": message, **fields}
        sys.stderr.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stderr.flush()


def _print(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
