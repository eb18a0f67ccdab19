"""Rules on trial: what those in shadow would mask of what the others leave, as masked samples.

A sample outlives the rows that it is of, so nothing of a payload is in it: the place, as far as its
names are words that anybody uses, and the shape of what stands around the mask.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from pipeline.declared import steps_of, text_at
from redactors import KeyRing, Redaction, Redactor, Ruleset, Unexaminable
from redactors.memory import common_words

MAX_SAMPLES: Final = 3
"""Samples of one rule that a slice keeps."""

_AROUND: Final = 24  # characters on either side of a mask whose shape is shown
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W_]+")
_RUNS: Final = (
    (re.compile(r"[^\W\d_]+"), "a"),
    (re.compile(r"\d+"), "9"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"[^\x20-\x7e]+|[^\w\s]{2,}"), "?"),
)


class Hit(NamedTuple):
    """Something that the rule would have masked."""

    rule: str
    sample: str


class Shadow:
    """The rules in shadow of one ruleset."""

    def __init__(self, ruleset: Ruleset, keys: KeyRing) -> None:
        self._redactor = Redactor(ruleset, keys, mode="shadow")

    def look(self, body: str) -> list[Hit]:
        """What they would mask in the JSON text `body`, which the other rules have masked before.

        A body that they could not examine is one hit of `(<code>)`.
        """
        try:
            would_be = self._redactor.redact_json(body)
        except Unexaminable as error:
            return [Hit(f"({error.code})", "")]
        if not would_be.redactions:
            return []
        try:
            value = orjson.loads(would_be.text)
        except orjson.JSONDecodeError:  # nested too deeply: its places are shown alone
            value = None
        return [Hit(r.rule.removeprefix("memory:"), _sample(value, r)) for r in would_be.redactions]


def shadow_of(ruleset: Ruleset, keys: KeyRing) -> Shadow | None:
    """The rules in shadow of `ruleset`; None: there are none, and nothing is looked at twice."""
    return Shadow(ruleset, keys) if ruleset.has_shadow else None


def _sample(value: Any, redaction: Redaction) -> str:
    place = "".join(f"/{_shown(step)}" for step in steps_of(redaction.path)) or "/"
    mask = f"[{redaction.label}]"
    if redaction.layers:
        return f"{place} ({', '.join(redaction.layers)}): {mask}"
    start, end, text = redaction.span_start, redaction.span_end, text_at(value, redaction.path, ())
    if start is None or end is None or text is None:
        return f"{place}: {mask}"
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    return f"{place}: {shape(before)}{mask}{shape(after)}"


def _shown(step: str) -> str:
    """A step of a path if it says nothing of anybody, else `*`."""
    if step.isascii() and step.isdigit():
        return step
    words = [word.lower() for word in _WORD.findall(step)]
    return step if words and all(word in common_words() for word in words) else "*"


def shape(text: str) -> str:
    """`text` with a run of letters as `a`, of digits as `9`, of signs as `?`, of space as one."""
    for run, sign in _RUNS:
        text = run.sub(sign, text)
    return text


def distinct(samples: Iterator[str] | list[str], limit: int = MAX_SAMPLES) -> tuple[str, ...]:
    """The first few different ones."""
    return tuple(list(dict.fromkeys(sample for sample in samples if sample))[:limit])
