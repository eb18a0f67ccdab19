"""The strings of a JSON text, where they stand, and the text with some of them replaced."""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from redactors.edits import Edit, apply
from redactors.fields import Role
from redactors.walk import Leaf, NotJson, places, pointer, walk


class Text(NamedTuple):
    """One string value: `path` is its JSON pointer, `token` names its place to `replaced`.

    `numbers` are the members around it whose names end in `index`, outermost first.
    """

    token: int
    path: str
    text: str
    numbers: tuple[str, ...]


class _NoRoles(dict[str, Role | None]):
    def __missing__(self, name: str) -> None:
        return None


def texts_of(raw: str) -> list[Text]:
    """The string values of `raw` that are not empty, in order; none if it is no JSON."""
    try:
        leaves = walk(raw, _NoRoles())
    except NotJson:
        return []
    numbered: defaultdict[int, list[str]] = defaultdict(list)
    for leaf in leaves:
        if leaf.key is not None and leaf.key.endswith("index") and leaf.text:
            numbered[id(leaf.frame)].append(f"{leaf.key}={leaf.text}")
    return [
        Text(leaf.token, pointer(leaf, {}), leaf.text, tuple(_numbers(leaf, numbered)))
        for leaf in leaves
        if leaf.quoted
    ]


def replaced(raw: str, new: Mapping[int, str]) -> str:
    """`raw` with other values for the strings that `new` names by their tokens."""
    tokens = sorted(new)
    edits = [
        Edit(start, end, json.dumps(new[token])[1:-1], ())
        for token, (start, end) in zip(tokens, places(raw, 0, tokens), strict=True)
    ]
    return apply(raw, edits)


def _numbers(leaf: Leaf, numbered: Mapping[int, list[str]]) -> list[str]:
    found: list[str] = []
    frame = leaf.frame
    while frame.parent is not None:
        found += reversed(numbered.get(id(frame), ()))
        frame = frame.parent
    return found[::-1]
