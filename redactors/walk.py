"""Walks a JSON text without building it: where each key and value stands, and what names it.

The walk is strict (RFC 8259) and iterative, so that nesting has no limit but the text's length;
repeated keys, lone surrogates and numbers of any size stay what they are in the text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

from redactors.fields import Role
from redactors.ruleset import FieldRule

_WS: Final = r"[ \t\n\r]*+"
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCALAR: Final = rf'(?:(")|({_NUMBER})|(true|false|null)|([\[{{]))'
# Possessive throughout: no position is ever tried twice.
_MEMBER: Final = re.compile(rf'{_WS}"([^"\\\x00-\x1f]*+)"{_WS}:{_WS}{_SCALAR}', re.ASCII)
_ESCAPED_KEY: Final = re.compile(rf'{_WS}"')
_AFTER_KEY: Final = re.compile(rf"{_WS}:{_WS}(){_SCALAR}")
_ITEM: Final = re.compile(rf"{_WS}(){_SCALAR}")
_QUOTE_GROUP, _NUMBER_GROUP, _OPEN_GROUP = 2, 3, 5
_DELIMITER: Final = re.compile(rf"{_WS}([,\]}}])")
_EMPTY_OBJECT: Final = re.compile(rf"{_WS}}}")
_EMPTY_ARRAY: Final = re.compile(rf"{_WS}\]")
_END: Final = re.compile(rf"{_WS}\Z")
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?:u[0-9a-fA-F]{4}|.)"
)


class Frame:
    """An object or array on the way down.

    `place` is where its key starts in the text (in an object) or its index (in an array); `rule`
    is the field rule its name asks for, which its items inherit.  `values` are the leaves that go
    by the name `named`, as in `{"name": …, "value": …}`; `carried` says that they belong to the
    parent's name if there is none here, as in `{"name": …, "value": {"stringValue": …}}`.
    """

    __slots__ = (
        "carried", "count", "is_object", "name", "named", "parent", "place", "rule", "values",
    )  # fmt: skip

    def __init__(
        self,
        parent: "Frame | None",
        place: int,
        is_object: bool,
        name: str,
        rule: FieldRule | None,
        carried: bool,
    ) -> None:
        self.parent, self.place, self.is_object = parent, place, is_object
        self.name, self.rule, self.carried = name, rule, carried
        self.count = 0
        self.named: str | None = None
        self.values: list[Leaf] | None = None


@dataclass(slots=True, eq=False)
class Leaf:
    """A scalar that can hold something: what it says, where it stands, what it is called.

    `start` and `end` bound its content in the text (of a string: inside the quotes); `text` is
    that content decoded.  `key` is its own key, None in an array; `place` is where that key starts
    in the text, or the index in the array; `name` is what it goes by.  A member whose value is no
    such scalar (empty, a literal, a container) is a leaf without text.
    """

    start: int
    end: int
    text: str
    quoted: bool
    key: str | None
    name: str
    frame: Frame
    place: int
    rule: FieldRule | None


class NotJson(ValueError):
    """The text is no JSON; `position` is about how far it was read."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__("not JSON")


def walk(raw: str, roles: Mapping[str, Role | None]) -> list[Leaf]:
    """The leaves of the JSON text `raw` in order; raises NotJson."""
    leaves, end = walk_from(raw, 0, roles)
    if not _END.match(raw, end):
        raise NotJson(end)
    return leaves


def walk_from(raw: str, position: int, roles: Mapping[str, Role | None]) -> tuple[list[Leaf], int]:
    """The leaves of the JSON value that starts at `position` in `raw`, and where it ends."""
    frame = Frame(None, 0, False, "", None, False)  # holds the value as its only item
    leaves: list[Leaf] = []
    while True:
        try:
            opened, position = _take(raw, position, frame, roles, leaves)
        except (ValueError, IndexError):  # a string with a bad escape, or without an end
            raise NotJson(position) from None
        if opened is not None:
            frame = opened
            empty = (_EMPTY_OBJECT if frame.is_object else _EMPTY_ARRAY).match(raw, position)
            if empty is None:
                continue
            position, frame = empty.end(), _close(frame, roles, leaves)
        while frame.parent is not None:
            delimiter = _DELIMITER.match(raw, position)
            if delimiter is None:
                raise NotJson(position)
            position = delimiter.end()
            if delimiter[1] == ",":
                break
            if frame.is_object != (delimiter[1] == "}"):
                raise NotJson(position)
            frame = _close(frame, roles, leaves)
        else:
            return leaves, position


def _take(
    raw: str,
    position: int,
    frame: Frame,
    roles: Mapping[str, Role | None],
    leaves: list[Leaf],
) -> tuple[Frame | None, int]:
    """Notes one member or item; returns the frame that it opens, if any, and where it ends."""
    role = key = None
    if frame.is_object:
        match = _MEMBER.match(raw, position)
        if match is not None:
            place, name = match.start(1), match[1]
        else:
            place, name, match = _escaped_key(raw, position)
        key = name
        role, rule, is_value = roles[name], None, False
        if role is not None:
            is_value = role.is_value
            rule = role.rule or (frame.rule if is_value else None)
    else:
        match = _ITEM.match(raw, position)
        name, place, rule, is_value = frame.name, frame.count, frame.rule, frame.carried
        frame.count += 1
    if match is None:
        raise ValueError
    kind, start = match.lastindex, match.end()
    if kind in (_QUOTE_GROUP, _NUMBER_GROUP):
        if kind == _QUOTE_GROUP:
            text, position = scanstring(raw, start, True)
            end = position - 1
        else:
            text, end, start = match[_NUMBER_GROUP], start, match.start(_NUMBER_GROUP)
            position = end
        if text:
            leaf = Leaf(start, end, text, kind == _QUOTE_GROUP, key, name, frame, place, rule)
            leaves.append(leaf)
            if is_value:
                _gather(frame, [leaf])
            if leaf.quoted and not frame.is_object:
                _take_argument(leaf, frame, roles)
            elif leaf.quoted and role is not None and role.is_name:
                frame.named = text
            return None, position
    else:
        position = start
    if frame.is_object:
        leaves.append(Leaf(start, start, "", False, key, name, frame, place, None))
    if kind != _OPEN_GROUP:
        return None, position
    return Frame(frame, place, raw[start - 1] == "{", name, rule, is_value), position


def _escaped_key(raw: str, position: int) -> tuple[int, str, "re.Match[str] | None"]:
    quote = _ESCAPED_KEY.match(raw, position)
    if quote is None:
        raise ValueError
    name, end = scanstring(raw, quote.end(), True)
    return quote.end(), name, _AFTER_KEY.match(raw, end)


def _take_argument(leaf: Leaf, frame: Frame, roles: Mapping[str, Role | None]) -> None:
    """In a list of arguments, what follows `--password` goes by that name."""
    if frame.named is not None:
        _name(leaf, frame.named, roles)
    frame.named = leaf.text.lstrip("-") if leaf.text.startswith("-") else None


def _close(frame: Frame, roles: Mapping[str, Role | None], leaves: list[Leaf]) -> Frame:
    """Names the values of `{"name": …, "value": …}`, and of `["name", "value"]` in a list.

    Returns the frame around.
    """
    parent = frame.parent
    assert parent is not None
    if frame.is_object and frame.named is not None:
        for leaf in frame.values or ():
            _name(leaf, frame.named, roles)
    elif frame.carried and frame.values:
        _gather(parent, frame.values)
    if frame.count == 2 and parent.parent is not None and not parent.is_object:
        pair = leaves[-2:]
        if len(pair) == 2 and all(leaf.frame is frame and leaf.quoted for leaf in pair):
            _name(pair[1], pair[0].text, roles)
    return parent


def _gather(frame: Frame, leaves: list[Leaf]) -> None:
    if frame.values is None:
        frame.values = leaves
    else:
        frame.values += leaves


def _name(leaf: Leaf, name: str, roles: Mapping[str, Role | None]) -> None:
    """Lets `leaf` go by `name` if that name asks for a rule; its own rule comes first."""
    role = roles[name]
    if role is not None and role.rule is not None and leaf.rule is None:
        leaf.rule, leaf.name = role.rule, name


def raw_offsets(raw: str, offsets: Sequence[int]) -> list[int]:
    """Where the ascending `offsets` into the decoded text of string content `raw` stand in it."""
    if "\\" not in raw:
        return list(offsets)
    found: list[int] = []
    wanted = iter(offsets)
    target = next(wanted, None)
    ahead = 0  # how far the place in `raw` is ahead of the place in the decoded text
    for escape in _ESCAPE.finditer(raw):
        while target is not None and target + ahead <= escape.start():
            found.append(target + ahead)
            target = next(wanted, None)
        if target is None:
            return found
        ahead += escape.end() - escape.start() - 1
    while target is not None:
        found.append(target + ahead)
        target = next(wanted, None)
    return found


def pointer(raw: str, leaf: Leaf, renamed: Mapping[int, str]) -> str:
    """The JSON pointer (RFC 6901) to `leaf`; `renamed` gives new keys by where they start."""
    steps: list[str] = []
    frame, place = leaf.frame, leaf.place
    while frame.parent is not None:
        step = renamed.get(place) if frame.is_object else str(place)
        if step is None:
            step = scanstring(raw, place, True)[0]
        steps.append(step.replace("~", "~0").replace("/", "~1"))
        place, frame = frame.place, frame.parent
    return "".join(f"/{step}" for step in reversed(steps))
