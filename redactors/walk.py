"""Walks a JSON text: its keys and values in order, what names each, and where it stands.

The walk is strict (RFC 8259), and nesting has no limit but the text's length; repeated keys, lone
surrogates and numbers of any size stay what they are in the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecodeError, JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple, NoReturn

from redactors.fields import Role
from redactors.ruleset import FieldRule

_WS: Final = re.compile(r"[ \t\n\r]*+")
_DELIMITER: Final = re.compile(r"[ \t\n\r]*+([,\]}])[ \t\n\r]*+")
_COLON: Final = re.compile(r"[ \t\n\r]*+:[ \t\n\r]*+")
_TELLING: Final = re.compile("[A-Za-z]{6}")  # more letters than a literal has
_NUMBER: Final = re.compile(r"-?[0-9][0-9.eE+-]*+", re.ASCII)
_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\(?:u[0-9a-fA-F]{4}|.)"
)


class Number(str):
    """A number, as the text has it."""

    __slots__ = ()


class NotJson(ValueError):
    """The text is no JSON; `position` is about how far it was read."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__("not JSON")


class Frame:
    """An object or array on the way down.

    `place` is the token of its key (in an object) or its index (in an array); `rule` is the field
    rule its name asks for, which its items inherit.  `values` are the leaves, by index, that go by
    the name `named`, as in `{"name": …, "value": …}`; `carried` says that they belong to the
    parent's name if there is none here, as in `{"name": …, "value": {"stringValue": …}}`.
    """

    __slots__ = (
        "carried", "count", "is_object", "items", "name", "named", "parent", "place", "rule",
        "values",
    )  # fmt: skip

    def __init__(
        self,
        parent: "Frame | None",
        place: int,
        value: Any,
        name: str,
        rule: FieldRule | None,
        carried: bool,
    ) -> None:
        self.parent, self.place, self.is_object = parent, place, type(value) is tuple
        self.name, self.rule, self.carried = name, rule, carried
        self.items: Iterator[Any] = iter(value)
        self.count = 0
        self.named: str | None = None
        self.values: list[int] | None = None


class Leaf(NamedTuple):
    """A scalar that can hold something: what it says, where it stands, what it is called.

    Strings, keys among them, and numbers are the tokens of a document, numbered in order: `token`
    is the value's own.  `key` is its own key, None in an array; `place` is the token of that key,
    or the index in the array; `name` is what it goes by.  A member whose value is no such scalar
    (empty, a literal, a container) is a leaf without text.
    """

    text: str
    quoted: bool
    key: str | None
    name: str
    frame: Frame
    place: int
    rule: FieldRule | None
    token: int


def _refuse(_constant: str) -> NoReturn:
    raise ValueError


# An object becomes a tuple of its members, so that a key that comes again is not lost.
_DECODER: Final = JSONDecoder(
    object_pairs_hook=tuple, parse_int=Number, parse_float=Number, parse_constant=_refuse
)


def walk(raw: str, roles: Mapping[str, Role | None]) -> list[Leaf]:
    """The leaves of the JSON text `raw` in order; raises NotJson."""
    value, end = _parsed(raw, 0)
    if _skipped(raw, end) != len(raw):
        raise NotJson(end)
    return _leaves(value, roles)


def walk_from(raw: str, position: int, roles: Mapping[str, Role | None]) -> tuple[list[Leaf], int]:
    """The leaves of the JSON value that starts at `position` in `raw`, and where it ends."""
    value, end = _parsed(raw, position)
    return _leaves(value, roles), end


def _skipped(raw: str, position: int) -> int:
    match = _WS.match(raw, position)
    return position if match is None else match.end()


def _parsed(raw: str, position: int) -> tuple[Any, int]:
    start = _skipped(raw, position)
    try:
        return _DECODER.raw_decode(raw, start)
    except JSONDecodeError as error:
        raise NotJson(error.pos) from None
    except RecursionError:
        return _parsed_deep(raw, start)
    except ValueError:  # a constant that is no JSON
        raise NotJson(start) from None


def _parsed_deep(raw: str, position: int) -> tuple[Any, int]:
    """The same for what is nested too deeply to be read by recursion."""
    opened: list[tuple[list[Any], str, bool]] = []  # the items, the key and whether an object
    key = ""
    value: Any
    while True:
        is_object = raw.startswith("{", position)
        if is_object or raw.startswith("[", position):
            position = _skipped(raw, position + 1)
            if not raw.startswith("}" if is_object else "]", position):
                opened.append(([], key, is_object))
                key, position = _key(raw, position, is_object)
                continue
            value, position = () if is_object else [], position + 1
        else:
            value, position = _parsed(raw, position)
        while opened:  # a value ends here, and perhaps what it stands in
            items, outer, is_object = opened[-1]
            items.append((key, value) if is_object else value)
            delimiter = _DELIMITER.match(raw, position)
            if delimiter is None or delimiter[1] == ("]" if is_object else "}"):
                raise NotJson(position)
            if delimiter[1] == ",":
                key, position = _key(raw, delimiter.end(), is_object)
                break
            opened.pop()
            key, value, position = outer, tuple(items) if is_object else items, delimiter.end(1)
        else:
            return value, position


def _key(raw: str, position: int, is_object: bool) -> tuple[str, int]:
    """The key of the member that starts at `position`, and where its value starts."""
    if not is_object:
        return "", position
    if not raw.startswith('"', position):
        raise NotJson(position)
    key, position = _parsed(raw, position)
    colon = _COLON.match(raw, position)
    if colon is None:
        raise NotJson(position)
    return key, colon.end()


def _leaves(value: Any, roles: Mapping[str, Role | None]) -> list[Leaf]:
    frame = Frame(None, 0, [value], "", None, False)  # holds the value as its only item
    leaves: list[Leaf] = []
    token = 0
    while True:
        take = _take_members if frame.is_object else _take_items
        opened, token = take(frame, token, roles, leaves)
        if opened is not None:
            frame = opened
        elif frame.parent is None:
            return leaves
        else:
            frame = _close(frame, roles, leaves)


def _take_members(
    frame: Frame, token: int, roles: Mapping[str, Role | None], leaves: list[Leaf]
) -> tuple[Frame | None, int]:
    """Notes members up to one that opens a frame; returns that frame and the next token."""
    rule, is_value = None, False
    for key, value in frame.items:
        role, kind = roles[key], type(value)
        if role is not None:
            is_value = role.is_value
            rule = role.rule or (frame.rule if is_value else None)
        if value and (kind is str or kind is Number):
            if role is not None:
                if is_value:
                    _gather(frame, [len(leaves)])
                if role.is_name and kind is str:
                    frame.named = value
            leaves.append(
                _LEAF(Leaf, (value, kind is str, key, key, frame, token, rule, token + 1))
            )
            token += 2
        else:
            leaves.append(_LEAF(Leaf, ("", False, key, key, frame, token, None, token)))
            if kind is tuple or kind is list:
                return Frame(frame, token, value, key, rule, is_value), token + 1
            token += 2 if kind is str else 1
        if role is not None:
            rule, is_value = None, False
    return None, token


def _take_items(
    frame: Frame, token: int, roles: Mapping[str, Role | None], leaves: list[Leaf]
) -> tuple[Frame | None, int]:
    """The same for the items of an array, which go by the name of the array."""
    name, rule = frame.name, frame.rule
    for value in frame.items:
        kind, place = type(value), frame.count
        frame.count += 1
        if kind is str or kind is Number:
            if value:
                if frame.carried:
                    _gather(frame, [len(leaves)])
                quoted = kind is str
                leaves.append(_LEAF(Leaf, (value, quoted, None, name, frame, place, rule, token)))
                if quoted:
                    _take_argument(frame, roles, leaves)
            token += 1
        elif kind is tuple or kind is list:
            return Frame(frame, place, value, name, rule, frame.carried), token
    return None, token


# A leaf made without a call of Python's: there is one for every value of every payload.
_LEAF: Final = tuple.__new__


def _take_argument(frame: Frame, roles: Mapping[str, Role | None], leaves: list[Leaf]) -> None:
    """In a list of arguments, what follows `--password` goes by that name."""
    text = leaves[-1].text
    if frame.named is not None:
        _name(leaves, len(leaves) - 1, frame.named, roles)
    frame.named = text.lstrip("-") if text.startswith("-") else None


def _close(frame: Frame, roles: Mapping[str, Role | None], leaves: list[Leaf]) -> Frame:
    """Names the values of `{"name": …, "value": …}`, and of `["name", "value"]` in a list.

    Returns the frame around.
    """
    parent = frame.parent
    assert parent is not None
    if frame.is_object and frame.named is not None:
        for index in frame.values or ():
            _name(leaves, index, frame.named, roles)
    elif frame.carried and frame.values:
        _gather(parent, frame.values)
    if frame.count == 2 and parent.parent is not None and not parent.is_object:
        pair = leaves[-2:]
        if len(pair) == 2 and all(leaf.frame is frame and leaf.quoted for leaf in pair):
            _name(leaves, len(leaves) - 1, pair[0].text, roles)
    return parent


def _gather(frame: Frame, indexes: list[int]) -> None:
    if frame.values is None:
        frame.values = indexes
    else:
        frame.values += indexes


def _name(leaves: list[Leaf], index: int, name: str, roles: Mapping[str, Role | None]) -> None:
    """Lets a leaf go by `name` if that name asks for a rule; its own rule comes first."""
    role = roles[name]
    if role is not None and role.rule is not None and leaves[index].rule is None:
        leaves[index] = leaves[index]._replace(rule=role.rule, name=name)


def places(raw: str, position: int, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where the ascending `tokens` of the document at `position` stand; strings without quotes."""
    token = 0
    wanted = iter(tokens)
    target = next(wanted, None)
    while target is not None:
        quote = raw.find('"', position)
        if quote < 0 or quote - position > 2:  # as long as the shortest that holds a number
            for number in _NUMBER.finditer(raw, position, len(raw) if quote < 0 else quote):
                if token == target:
                    yield number.span()
                    target = next(wanted, None)
                token += 1
        position = scanstring(raw, quote + 1, True)[1] if target is not None else position
        if token == target:
            yield quote + 1, position - 1
            target = next(wanted, None)
        token += 1


def place_of(raw: str, position: int, leaf_text: str) -> tuple[int, int] | None:
    """Where the only string of the document at `position` that says `leaf_text` stands.

    None: there may be others.  What lies between strings cannot be taken for one that has letters.
    """
    if not _TELLING.search(leaf_text) or "\\u" in raw or "\\/" in raw:
        return None
    written = encode_basestring(leaf_text)
    at = raw.find(written, position)
    if at < 0 or raw.find(written, at + 1) >= 0:
        return None
    return at + 1, at + len(written) - 1


def raw_offsets(raw: str, text: str, offsets: Sequence[int]) -> list[int]:
    """Where the ascending `offsets` into `text` stand in `raw`, the string content it is of."""
    if len(raw) == len(text):
        return list(offsets)
    found: list[int] = []
    before = at = 0
    for offset in offsets:
        usual = encode_basestring(text[before:offset])[1:-1]
        if not raw.startswith(usual, at):
            return found + _raw_offsets(raw, offsets[len(found) :])
        at += len(usual)
        found.append(at)
        before = offset
    return found


def _raw_offsets(raw: str, offsets: Sequence[int]) -> list[int]:
    """The same for a text that is escaped in an unusual way."""
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


def pointer(leaf: Leaf, renamed: Mapping[int, str]) -> str:
    """The JSON pointer (RFC 6901) to `leaf`; `renamed` gives new keys by their tokens."""
    steps: list[str] = []
    frame, place, key = leaf.frame, leaf.place, leaf.key or ""
    while frame.parent is not None:
        step = renamed.get(place, key) if frame.is_object else str(place)
        steps.append(step.replace("~", "~0").replace("/", "~1"))
        place, key, frame = frame.place, frame.name, frame.parent
    return "".join(f"/{step}" for step in reversed(steps))
