"""Patterns as trees: the syntax that RE2 and hyperscan share, read over bytes.

Rules are written once, as RE2 patterns.  The scanning engines want them in other shapes (see
`loosen.py`), which are made from these trees.  What both engines do not agree on is refused.
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from redactors.errors import RulesetError
from redactors.rendering import bytes_as_text, count_as_text


@dataclass(frozen=True, slots=True)
class Bytes:
    """One byte out of a set: bit `n` of `mask` is set if byte `n` is in it."""

    mask: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items one after the other."""

    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the options."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`low` to `high` times (None: any number)."""

    item: "Node"
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place: `^`, `$`, `\\b`, `\\B`, `\\A` or `\\z`."""

    kind: str


Node: TypeAlias = Bytes | Sequence | Choice | Repeat | Anchor
MAX_PATTERN_LENGTH: Final = 20_000
_MAX_NESTING: Final = 100


def mask_of(members: Iterable[int]) -> int:
    """The mask of a set of byte values."""
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


ALL: Final = (1 << 256) - 1
NEWLINE: Final = mask_of(b"\n")
DIGITS: Final = mask_of(b"0123456789")
LOWER: Final = mask_of(range(97, 123))
UPPER: Final = mask_of(range(65, 91))
WORD: Final = DIGITS | LOWER | UPPER | mask_of(b"_")
SPACE: Final = mask_of(b"\t\n\f\r ")
_CLASSES: Final = {
    "d": DIGITS, "D": ALL & ~DIGITS, "w": WORD, "W": ALL & ~WORD, "s": SPACE, "S": ALL & ~SPACE,
}  # fmt: skip
_CONTROLS: Final = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_POSIX: Final = {
    "alpha": LOWER | UPPER, "digit": DIGITS, "alnum": LOWER | UPPER | DIGITS, "upper": UPPER,
    "lower": LOWER, "space": SPACE | mask_of(b"\v"), "word": WORD,
    "xdigit": DIGITS | mask_of(b"abcdefABCDEF"), "punct": mask_of(string.punctuation.encode()),
}  # fmt: skip


def parse(pattern: str, rule_id: str) -> Node:
    """The tree of `pattern`; raises RulesetError for what is not in the shared syntax."""
    return _parsed(pattern, rule_id)[1]


def over_bytes(pattern: str, rule_id: str) -> bytes:
    """`pattern` as RE2 takes it over bytes: no class in it holds a character of several bytes."""
    parser, _ = _parsed(pattern, rule_id)
    for start, end, text in reversed(parser.replaced):
        pattern = pattern[:start] + text + pattern[end:]
    return pattern.encode()


@lru_cache(maxsize=1024)  # each rule's pattern is asked for several times
def _parsed(pattern: str, rule_id: str) -> "tuple[_Parser, Node]":
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise RulesetError(f"{rule_id}: pattern is longer than {MAX_PATTERN_LENGTH} characters")
    parser = _Parser(pattern, rule_id)
    tree = parser.choice(_Flags(), 0)
    if parser.at < len(pattern):
        raise parser.error("an unmatched )")
    return parser, tree


@dataclass(frozen=True, slots=True)
class _Flags:
    caseless: bool = False
    dot_all: bool = False

    def changed(self, letters: str) -> "_Flags":
        on, _, off = letters.partition("-")
        return _Flags(
            ("i" in on or self.caseless) and "i" not in off,
            ("s" in on or self.dot_all) and "s" not in off,
        )


class _Parser:
    def __init__(self, pattern: str, rule_id: str) -> None:
        self._text, self._rule_id, self.at = pattern, rule_id, 0
        self.replaced: list[tuple[int, int, str]] = []

    def error(self, what: str) -> RulesetError:
        return RulesetError(f"{self._rule_id}: pattern has {what} at {self.at}")

    def choice(self, flags: _Flags, depth: int) -> Node:
        if depth > _MAX_NESTING:
            raise self.error(f"more than {_MAX_NESTING} groups in each other")
        options: list[Node] = []
        items: list[Node] = []
        while self.at < len(self._text) and self._text[self.at] != ")":
            if self._text[self.at] == "|":
                self.at += 1
                options.append(joined(items))
                items = []
                continue
            flags = self._item(items, flags, depth)
        options.append(joined(items))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _item(self, items: list[Node], flags: _Flags, depth: int) -> _Flags:
        """Reads one item with its count; returns the flags that hold after it."""
        character = self._text[self.at]
        if character == "(":
            node, flags = self._group(flags, depth)
            if node is None:
                return flags
        else:
            node = self._single(flags)
        items.append(self._counted(node))
        return flags

    def _group(self, flags: _Flags, depth: int) -> tuple[Node | None, _Flags]:
        self.at += 1
        inner = flags
        if self._text.startswith("?", self.at):
            end = self.at + 1
            while end < len(self._text) and self._text[end] in "imsU-":
                end += 1
            letters, closer = self._text[self.at + 1 : end], self._text[end : end + 1]
            if closer == ")" and letters:
                self.at = end + 1
                return None, flags.changed(letters)
            if closer == ":":
                inner, self.at = flags.changed(letters), end + 1
            elif closer in ("P", "<") and not letters:
                self.at = self._after_name(end)
            else:
                raise self.error("a group that is not RE2's")
        node = self.choice(inner, depth + 1)
        if not self._text.startswith(")", self.at):
            raise self.error("a group without end")
        self.at += 1
        return node, flags

    def _after_name(self, at: int) -> int:
        start = at + (2 if self._text.startswith("P<", at) else 1)
        end = self._text.find(">", start)
        if end < 0 or not self._text[start:end].isidentifier():
            raise self.error("a group that is not RE2's")
        return end + 1

    def _counted(self, node: Node) -> Node:
        while self.at < len(self._text):
            low, high, length = self._count()
            if not length:
                return node
            if isinstance(node, Anchor):
                raise self.error("a repeated anchor")
            self.at += length
            if self._text.startswith("?", self.at):
                self.at += 1
            node = Repeat(node, low, high)
        return node

    def _count(self) -> tuple[int, int | None, int]:
        """`(low, high, length)` of the count that stands here; length 0: none."""
        simple = {"*": (0, None, 1), "+": (1, None, 1), "?": (0, 1, 1)}
        character = self._text[self.at]
        if character != "{":
            return simple.get(character, (0, 0, 0))
        end = self._text.find("}", self.at)
        low, comma, high = self._text[self.at + 1 : max(end, 0)].partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            return 0, 0, 0  # an ordinary brace
        most = int(high) if high else None if comma else int(low)
        return int(low), most, end + 1 - self.at

    def _single(self, flags: _Flags) -> Node:
        character = self._text[self.at]
        self.at += 1
        if character == ".":
            return Bytes(ALL if flags.dot_all else ALL & ~NEWLINE)
        if character in "^$":
            return Anchor(character)
        if character == "[":
            return self._class(flags)
        if character == "\\":
            return self._escape(flags)
        if character in "*+?":
            raise self.error("nothing to repeat")
        return literal(character, caseless=flags.caseless)

    def _escape(self, flags: _Flags) -> Node:
        if self.at >= len(self._text):
            raise self.error("a lone backslash")
        letter = self._text[self.at]
        if letter in "bBAz":
            self.at += 1
            return Anchor(f"\\{letter}")
        if letter in _CLASSES:
            self.at += 1
            return Bytes(_CLASSES[letter])
        return Bytes(_folded(1 << self._escaped_byte(), flags))

    def _escaped_byte(self) -> int:
        letter = self._text[self.at]
        self.at += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "x":
            digits = self._text[self.at : self.at + 2]
            try:
                value = int(digits, 16)
            except ValueError:
                raise self.error("an escape that is not RE2's") from None
            self.at += 2
            return value
        if letter.isalnum() or not letter.isascii():
            raise self.error("an escape that is not RE2's")
        return ord(letter)

    def _class(self, flags: _Flags) -> Node:
        """A class; characters in it that are not ASCII become alternatives of several bytes."""
        start = self.at - 1
        negated = self._text.startswith("^", self.at)
        self.at += negated
        mask, first, others = 0, True, ""
        while first or not self._text.startswith("]", self.at):
            if self.at >= len(self._text):
                raise self.error("a class without end")
            first = False
            if self._text[self.at].isascii():
                mask |= self._member()
            elif self._text.startswith("-", self.at + 1) and self._text[self.at + 2] != "]":
                raise self.error("a range of characters that are not ASCII")
            else:
                others += self._text[self.at]
                self.at += 1
        self.at += 1
        mask = _folded(mask, flags)  # first: what is not a letter is not its capital either
        single = Bytes(ALL & ~mask if negated else mask)
        if not others:
            return single
        if negated:
            raise self.error("a negated class with a character that is not ASCII")
        node = Choice((*((single,) if mask else ()), *map(literal, others)))
        self.replaced.append((start, self.at, f"(?:{render(node)})"))
        return node

    def _member(self) -> int:
        if self._text.startswith("[:", self.at):
            end = self._text.find(":]", self.at)
            name = self._text[self.at + 2 : max(end, 0)]
            if name not in _POSIX:
                raise self.error("a class that is not RE2's")
            self.at = end + 2
            return _POSIX[name]
        if self._text[self.at] == "\\" and self._text[self.at + 1 : self.at + 2] in _CLASSES:
            self.at += 2
            return _CLASSES[self._text[self.at - 1]]
        low = self._class_byte()
        after = self._text[self.at + 1 : self.at + 2]
        if not self._text.startswith("-", self.at) or after in ("]", ""):
            return 1 << low
        self.at += 1
        high = self._class_byte()  # refuses one that is not ASCII
        if high < low:
            raise self.error("a range that ends before it starts")
        return mask_of(range(low, high + 1))

    def _class_byte(self) -> int:
        character = self._text[self.at]
        self.at += 1
        if character == "\\":
            if self.at >= len(self._text):
                raise self.error("a class without end")
            return self._escaped_byte()
        if not character.isascii():
            raise self.error("a class with a character that is not ASCII")
        return ord(character)


def literal(text: str, *, caseless: bool = False) -> Node:
    """The tree of a literal text, as UTF-8."""
    flags = _Flags(caseless)
    return joined(Bytes(_folded(1 << byte, flags)) for byte in text.encode())


def joined(items: Iterable[Node]) -> Node:
    """The items one after the other, sequences among them flattened."""
    flat: list[Node] = []
    for item in items:
        flat += item.items if isinstance(item, Sequence) else (item,)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def _folded(mask: int, flags: _Flags) -> int:
    if not flags.caseless:
        return mask
    return mask | (mask & UPPER) << 32 | (mask & LOWER) >> 32


def longest(node: Node) -> int | None:
    """The most bytes that `node` matches; None: no limit."""
    match node:
        case Bytes():
            return 1
        case Anchor():
            return 0
        case Sequence(items):
            widths = [longest(item) for item in items]
            return None if None in widths else sum(w for w in widths if w is not None)
        case Choice(options):
            widths = [longest(option) for option in options]
            return None if None in widths else max(w for w in widths if w is not None)
        case Repeat(item, _, high):
            width = longest(item)
            if width == 0 or high == 0:
                return 0
            return None if high is None or width is None else width * high


def is_nullable(node: Node) -> bool:
    """Whether `node` may match no byte at all."""
    match node:
        case Bytes():
            return False
        case Anchor():
            return True
        case Sequence(items):
            return all(is_nullable(item) for item in items)
        case Choice(options):
            return any(is_nullable(option) for option in options)
        case Repeat(item, low, _):
            return low == 0 or is_nullable(item)


def render(node: Node) -> str:
    """`node` in a syntax that hyperscan takes; without capturing groups."""
    match node:
        case Bytes(mask):
            return bytes_as_text(mask)
        case Anchor(kind):
            return kind
        case Sequence(items):
            return "".join(
                f"(?:{render(item)})" if isinstance(item, Choice) else render(item)
                for item in items
            )
        case Choice(options):
            return "|".join(render(option) for option in options)
        case Repeat(item, low, high):
            inner = render(item) if isinstance(item, Bytes) else f"(?:{render(item)})"
            return inner + count_as_text(low, high)
