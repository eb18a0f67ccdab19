"""A corpus made from a seed, for who has none: what rules say they find, and values that are clean.

Planted is what a rule takes of its own examples, as they are and filled anew, in the places where
agents have it: alone, in prose, in an event, in a document in a string.  Of a rule that takes a
built-in one's id the built-in one's examples count, too, so that it does not find less.  Clean are
identifiers, times, paths and prose.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import UUID

from pipeline.review.labelled import Planted, Row, written
from redactors import Ruleset, load_ruleset
from redactors.compiled import Matcher, matcher_of
from redactors.finder import spans
from redactors.proof import disproof
from redactors.ruleset import FieldRule, Rule
from redactors.templates import expand

CLEAN: Final = 300
"""Clean values, each in an event and in a text."""

_HEX: Final = "0123456789abcdef"
_WORDS: Final = (
    "agent",
    "file",
    "line",
    "page",
    "plan",
    "read",
    "run",
    "step",
    "test",
    "then",
    "went",
)


def corpus(ruleset: Ruleset, seed: int) -> Iterator[Row]:
    """The rows for a ruleset; the same for the same seed."""
    built_in = {rule.id: rule for rule in load_ruleset().declared}
    for rule in ruleset.in_mode("act").declared:
        if rule.action == "keep":
            continue
        for each in {rule, built_in.get(rule.id, rule)}:
            if isinstance(each, Rule):
                yield from _of_rule(each, seed)
            elif isinstance(each, FieldRule):
                yield from _of_field(each, seed)
    yield from _clean(random.Random(seed))


def _of_rule(rule: Rule, seed: int) -> Iterator[Row]:
    matcher = matcher_of(rule)
    for template in rule.matches:
        for example, names in (
            (expand(template), ("alone", "prose", "string")),
            (expand(template, str(seed)), ("event",)),
        ):
            values = dict.fromkeys(_taken(matcher, example))
            planted = tuple(Planted(value, rule.id) for value in values)
            for name in names if planted else ():
                text, is_event = _CARRIERS[name](example)
                if is_event or _taken(matcher, text):  # prose may end what a pattern needs
                    place = f"generated: {rule.id}, {name}"
                    yield Row(place, text, is_event, planted, partial=True)


def _taken(matcher: Matcher, text: str) -> list[str]:
    """What a rule takes of a text."""
    data = text.encode()
    if matcher.keywords and not any(word in data.lower() for word in matcher.keywords):
        return []
    return [data[start:end].decode() for start, end in spans(matcher, data)]


_CARRIERS: Final[dict[str, Callable[[str], tuple[str, bool]]]] = {
    "alone": lambda example: (example, False),
    "prose": lambda example: (f"The agent wrote:\n{example}\nand went on.", False),
    "event": lambda example: (written({"role": "tool", "output": example}), True),
    "string": lambda example: (written({"arguments": json.dumps({"input": example})}), True),
}


def _of_field(rule: FieldRule, seed: int) -> Iterator[Row]:
    for template in rule.matches:
        example = expand(template, str(seed))
        name, _, value = example.partition(": ")
        if disproof(rule.model_copy(update={"matches": (example,), "rejects": ()})):
            continue  # filled so, its validator would not have it
        planted, place = (Planted(value, rule.id),), f"generated: {rule.id}"
        yield Row(f"{place}, event", written({name: value}), True, planted, partial=True)
        inner = json.dumps({"step": 1, name: value})
        yield Row(f"{place}, string", written({"output": inner}), True, planted, partial=True)


def _clean(source: random.Random) -> Iterator[Row]:
    for number in range(CLEAN):
        name, make = source.choice(list(_IDENTIFIERS.items()))
        value = make(source)
        prose = " ".join(source.choices(_WORDS, k=12))
        event: Any = {name: value, "text": f"{prose} {value} {prose}", "step": number}
        place = f"generated: clean {name}"
        yield Row(place, written(event), True, kept=(str(value), prose))
        yield Row(place, f"{prose}: {value}", False, kept=(str(value), prose))


def _hex(source: random.Random, count: int) -> str:
    return "".join(source.choices(_HEX, k=count))


_IDENTIFIERS: Final[dict[str, Callable[[random.Random], str | int]]] = {
    "run_id": lambda source: str(UUID(int=source.getrandbits(128), version=4)),
    "trace_id": lambda source: _hex(source, 32),
    "span_id": lambda source: _hex(source, 16),
    "commit": lambda source: _hex(source, 40),
    "image": lambda source: f"sha256:{_hex(source, 64)}",
    "created_at": lambda source: (
        f"2026-{source.randint(1, 12):02}-{source.randint(1, 28):02}T"
        f"{source.randint(0, 23):02}:{source.randint(0, 59):02}:00Z"
    ),
    "time_ms": lambda source: 1_780_000_000_000 + source.randrange(10**10),
    "input_tokens": lambda source: source.randrange(200_000),
    "version": lambda source: (
        f"{source.randrange(30)}.{source.randrange(30)}.{source.randrange(9)}"
    ),
    "path": lambda source: f"/srv/app/src/module_{source.randrange(100)}/test_{_hex(source, 6)}.py",
    "url": lambda source: f"https://docs.example.org/guide/{source.randrange(1000)}?page=2",
    "order": lambda source: f"order-{source.randrange(10**6)}",
}
