"""The declarations of a body that is masked again: those of before, at their new places.

A mask that stands stays declared as it was.  What went with a larger mask is declared by that one.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipeline.declared import place_in, text_at
from redactors import Redaction
from redactors.walk import pointer, walk

Declared = Mapping[str, Any]
"""A redaction as a row has it."""

_OWN: Final = ((), ("json",), ("key",))
"""Layers whose spans count in the text that the path names."""


def merged(
    declared: Sequence[Declared], before: str, after: str, made: Sequence[Redaction]
) -> list[Declared]:
    """What was declared of the body `before`, as it is true of `after`, in which `made` came.

    Declarations of columns stay as they are.  A place that cannot be told any more is left out: the
    declaration then speaks of the whole value.
    """
    paths = _Renamed(before, after) if any(_is_of_key(m.layers) for m in made) else None
    arrived, stored = _parsed(before), _parsed(after)
    kept: list[Declared] = []
    for each in declared:
        path = each["path"]
        if path and not path.startswith("/"):
            kept.append(each)
            continue
        path = paths.find(path) if paths is not None else path
        layers = tuple(each["layers"] or ())
        here = [m for m in made if m.path == path and _is_of_key(m.layers) == _is_of_key(layers)]
        if any(m.span_start is None and m.layers in _OWN for m in here):
            continue
        if not here:
            kept.append({**each, "path": path})
            continue
        span = None
        if layers in _OWN:
            old, new = text_at(arrived, each["path"], layers), text_at(stored, path, layers)
            if old is not None and new is not None and each["span_start"] is not None:
                span = _moved(each, old, new, here)
                if span is None:
                    continue
        elif all(m.layers != layers for m in here):
            span = each["span_start"], each["span_end"]
        start, end = span or (None, None)
        kept.append({**each, "path": path, "span_start": start, "span_end": end})
    return kept


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except RecursionError:
        return None


def _moved(
    each: Declared, old: str, new: str, here: Sequence[Redaction]
) -> tuple[int | None, int | None] | None:
    """Where the mask stands in `new`; None if it went with a larger one."""
    mask = old[each["span_start"] : each["span_end"]]
    if not mask:
        return None, None  # what was dropped left nothing to look for
    taken = {(m.span_start, m.span_end) for m in here}
    at = place_in(new, mask, each["span_start"], old, taken)
    return None if at is None else (at, at + len(mask))


def _is_of_key(layers: Sequence[str]) -> bool:
    return tuple(layers[:1]) == ("key",)


class _NoRoles(dict[str, None]):
    def __missing__(self, name: str) -> None:
        return None


class _Renamed:
    """Pointers into a document whose keys were masked, found by those of before."""

    def __init__(self, before: str, after: str) -> None:
        old, new = (
            [pointer(leaf, {}) for leaf in walk(raw, _NoRoles()) if leaf.key is not None]
            for raw in (before, after)
        )
        self._known = dict(zip(old, new, strict=True))

    def find(self, path: str) -> str:
        """The new pointer: that of the member, and below it the places in arrays as they were."""
        member, rest = path, ""
        while member and member not in self._known:
            member, _, step = member.rpartition("/")
            rest = f"/{step}{rest}"
        return self._known.get(member, "") + rest
