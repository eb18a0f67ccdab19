"""Payloads to try rules on: the lines of files, and the examples that stand with the rules."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from redactors import Ruleset
from redactors.templates import expand


@dataclass(frozen=True, slots=True)
class Payload:
    """A text, or an event in JSON, and where it stands."""

    place: str
    text: str
    is_event: bool


def payloads_of(files: Iterable[Path]) -> Iterator[Payload]:
    """The lines of `files`: an object or a list in JSON is an event, all else is text."""
    for path in files:
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            for number, line in enumerate(lines, 1):
                text = line.rstrip("\r\n")
                if text:
                    yield Payload(f"{path}:{number}", text, is_event(text))


def examples_of(ruleset: Ruleset) -> Iterator[Payload]:
    """What the rules say that they find, a field's as an event with that field."""
    for rule in ruleset.rules:
        for number, template in enumerate(rule.matches, 1):
            yield Payload(f"{rule.id}, example {number}", expand(template), False)
    for field in ruleset.fields:
        for number, template in enumerate(field.matches, 1):
            name, _, value = expand(template).partition(": ")
            event = orjson.dumps({name: value}).decode()
            yield Payload(f"{field.id}, example {number}", event, True)


def is_event(text: str) -> bool:
    """Whether `text` is an object or a list in JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False
    return True
