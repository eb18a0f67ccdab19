"""What a producer says it masked, as far as it is true of what we store.

A declaration is payload like the rest: it is kept only where it is written in our words and a mask
of its label really stands at its place; the pipeline's own masks may have moved that place.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import orjson

from redactors import Redaction
from schemas import DeclaredRedaction

MAX_DECLARED: Final = 1_000
"""Declarations looked at in one event."""

_RULE: Final = re.compile(r"(memory:)?[a-z0-9]+(-[a-z0-9]+)*")
_LABEL: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_ACTIONS: Final = frozenset({"mask", "hash", "length"})
_LAYERS: Final = frozenset({(), ("json",), ("key",)})
"""Layers whose spans count in the text that the path names; deeper ones cannot be checked."""


def carry_declared(
    declared: tuple[DeclaredRedaction, ...],
    before: str,
    after: str,
    own: tuple[Redaction, ...],
    columns: Mapping[str, str | None],
    is_clean: Callable[[str], bool],
) -> tuple[Redaction, ...]:
    """The declarations that hold, with their places in the stored body.

    `before` and `after` are the body as it arrived and as it is stored, `own` what we masked in
    between, `columns` the stored columns; `is_clean` says that no rule fires in a text.
    """
    if not declared:
        return ()
    try:
        arrived, stored = orjson.loads(before), orjson.loads(after)
    except orjson.JSONDecodeError:  # nested too deeply: its claims cannot be checked
        return ()
    kept = []
    for claim in declared[:MAX_DECLARED]:
        if not _is_in_our_words(claim, is_clean):
            continue
        column = columns.get(claim.path)
        old = text_at(arrived, claim.path, claim.layers) if column is None else column
        new = text_at(stored, claim.path, claim.layers) if column is None else column
        moved = _moved(claim, old, new, own)
        if moved is not None:
            kept.append(moved)
    return tuple(kept)


def _is_in_our_words(claim: DeclaredRedaction, is_clean: Callable[[str], bool]) -> bool:
    return bool(
        _RULE.fullmatch(claim.rule)
        and _LABEL.fullmatch(claim.label)
        and claim.action in _ACTIONS
        and claim.layers in _LAYERS
        and is_clean(claim.path)
    )


def text_at(value: Any, path: str, layers: tuple[str, ...]) -> str | None:
    """The string at a JSON pointer (RFC 6901); for layer "key" the last step's name."""
    if path and not path.startswith("/"):
        return None
    steps = list(steps_of(path))
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    if layers == ("key",):
        return steps[-1] if steps else None
    return value if isinstance(value, str) else None


def steps_of(pointer: str) -> Iterator[str]:
    """The names and numbers on the way that a JSON pointer says."""
    for step in pointer.split("/")[1:]:
        yield step.replace("~1", "/").replace("~0", "~")


def _moved(
    claim: DeclaredRedaction, old: str | None, new: str | None, own: tuple[Redaction, ...]
) -> Redaction | None:
    """The claim at its place in `new`: the same mask, the same one of several equal ones."""
    if old is None or new is None:
        return None
    is_whole = claim.span_start is None or claim.span_end is None
    start, end = (0, len(old)) if is_whole else (claim.span_start or 0, claim.span_end or 0)
    mask = old[start:end]
    if not re.fullmatch(rf"\[{claim.label}(:[A-Za-z0-9=:]+)?\](#\d+)?", mask):
        return None
    ours = {(o.span_start, o.span_end) for o in own if o.path == claim.path}
    at = place_in(new, mask, start, old, ours)
    if at is None:
        return None
    return Redaction(
        path=claim.path,
        rule=claim.rule,
        label=claim.label,
        action=claim.action,
        span_start=None if is_whole else at,
        span_end=None if is_whole else at + len(mask),
        length=claim.length,
        layers=claim.layers,
        by="emitter",
    )


def place_in(
    new: str, mask: str, start: int, old: str, taken: Collection[tuple[int | None, int | None]]
) -> int | None:
    """Where in `new` the mask stands that stood at `start` in `old`: of several equal ones the
    same, those at the spans `taken` left aside; None if it is not there any more."""
    places = [at for at in _places(new, mask) if (at, at + len(mask)) not in taken]
    number = sum(at < start for at in _places(old, mask))
    return places[number] if number < len(places) else None


def _places(text: str, mask: str) -> Iterator[int]:
    at = text.find(mask)
    while at >= 0:
        yield at
        at = text.find(mask, at + len(mask))
