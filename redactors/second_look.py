"""A closer look at what the screen points at, before a text is taken apart for it.

The screen hits wherever a finding may stand: at an order number as at a card number, at a
placeholder as at a key.  Most of that is refuted here, on the JSON text with its escapes undone,
by the exact patterns, their validators, and the rules for values given by name.  What cannot be
refuted without knowing where each string ends is left to a full examination.
"""

import re
from functools import reduce
from operator import or_
from typing import Any, Final

import re2

from redactors.assignments import assignments, flag_patterns, named_patterns
from redactors.boundaries import in_json
from redactors.compiled import Compiled, Matcher
from redactors.databases import Scanned, pattern_database
from redactors.encoded import data_urls_hold_nothing
from redactors.finder import spans
from redactors.name_needles import key_needles
from redactors.pattern import (
    Anchor,
    Bytes,
    Choice,
    Node,
    Repeat,
    Sequence,
    is_nullable,
    joined,
    longest,
    mask_of,
    parse,
    render,
)
from redactors.ruleset import FieldRule
from redactors.screen import DATA_URL, NAMED
from redactors.trees import items_of, leaves

_AROUND: Final = mask_of(b'":,[]}{ \t\r\n')  # around a value in JSON, or in a scan
_OUTSIDE: Final = _AROUND & ~mask_of(b" :")
_MAX_EDGE: Final = 2
_QUOTED: Final = re.compile(rb"[ \t]{0,8}+[bBrRuUfF@$]{0,2}+[\"'`\\]")
_KEY, _END = 0, 1
# A byte that JSON has in strings alone: none of its marks, numbers and literals is made of it.
_OF_STRINGS: Final = re.compile(rb"[^\"truefalsnE0-9+\-.,:\[\]{}\s]")


class SecondLook:
    """Refutes what the screen of one ruleset points at."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._matchers = {i: m for i, m in enumerate(compiled.matchers) if _stands_alone(m)}
        self._placed: dict[int, Any] = {}  # made when first asked for
        secret = [field for field in compiled.fields if field.kind == "secret"]
        keys = key_needles(compiled.fields)
        patterns = [Scanned("key", each.pattern, _KEY, once=True) for each in keys]
        patterns += [
            Scanned("name", each, _END)
            for each in (*named_patterns(secret), *flag_patterns(secret))
        ]
        self._names = pattern_database(patterns)

    def refutes(self, index: int, text: bytes) -> bool:
        """Whether no finding of what the screen calls `index` stands in unescaped JSON `text`."""
        if index == NAMED:
            return self._refutes_names(text)
        if index == DATA_URL:
            return data_urls_hold_nothing(text.decode("utf-8", "surrogatepass"))
        if index >= len(self._compiled.matchers):
            return False
        matcher = self._matchers.get(index)
        if matcher is not None:
            return next(spans(matcher, text), None) is None
        return self._refutes_placed(index, text)

    def _refutes_placed(self, index: int, text: bytes) -> bool:
        """The same for a rule whose matches may reach from a key into a value, or take quotes.

        A match without a quote lies in one string, and is what a search of that string finds.
        """
        matcher = self._compiled.matchers[index]
        if matcher.longest is not None:  # a string is searched in windows, not from its start
            return False
        placed = self._placed.get(index) or self._placed.setdefault(index, _placed(matcher))

        def search(text: bytes, position: int, end: int) -> Any:
            match = placed.search(text, position, end)
            if match is None:
                return None
            found = matcher.exact.match(text, match.start())
            if found is None or found[0] != match[0] or not _is_of_a_string(found[0]):
                raise _CannotTellError
            return found

        try:
            return next(spans(matcher, text, search=search), None) is None
        except _CannotTellError:
            return False

    def _refutes_names(self, text: bytes) -> bool:
        ends: set[int] = set()
        self._names.scan(text, match_event_handler=_note, context=ends)
        if -1 in ends or any(_QUOTED.match(text, end) for end in ends):
            return False  # a key; or a value that may end where its string does
        named = assignments(text, sorted(ends), self._compiled.roles, self._is_valid)
        return next(named, None) is None

    def _is_valid(self, rule: FieldRule, value: str) -> bool:
        valid = self._compiled.valid.get(rule.id)
        return valid is None or valid(value)


class _CannotTellError(Exception):
    """A match that may be one of a string, or of what stands around it."""


def _is_of_a_string(match: bytes) -> bool:
    return b'"' not in match and _OF_STRINGS.search(match) is not None


def _placed(matcher: Matcher) -> Any:
    """Matches in unescaped JSON text wherever the rule does in a leaf, and as much of it."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.longest_match = True
    placed = map(render, in_json(parse(matcher.rule.pattern, matcher.rule.id)))
    return re2.compile(f"(?m:{'|'.join(placed)})".encode("latin-1"), options)


def _note(index: int, _start: int, end: int, _flags: int, ends: set[int]) -> None:
    ends.add(-1 if index == _KEY else end)


def _stands_alone(matcher: Matcher) -> bool:
    """Whether a match of the rule in a string is one in unescaped JSON too, with the same end."""
    tree = parse(matcher.rule.pattern, matcher.rule.id)
    options = tree.options if isinstance(tree, Choice) else (tree,)
    return all(_is_told_apart(option, matcher.rule.unless is None) for option in options)


def _is_told_apart(tree: Node, may_have_edges: bool) -> bool:
    """Whether only a byte at either end of a match may be one that JSON has around a value.

    There, any of them must do, so that none makes a difference.
    """
    items = list(items_of(tree))
    edges = [items.pop(at) for at in (0, -1) if items and _takes(items[at], _AROUND)]
    if not items or (edges and not may_have_edges) or not all(map(_is_blind, edges)):
        return False
    if any(_takes(item, _OUTSIDE) or _has_line_anchor(item) for item in items):
        return False
    inner = joined(items)
    return not (_end_bytes(inner, 1) | _end_bytes(inner, -1)) & _AROUND


def _end_bytes(node: Node, step: int) -> int:
    """The bytes that a match may start with (`step` 1) or end with (-1)."""
    match node:
        case Bytes(mask):
            return mask
        case Anchor():
            return 0
        case Repeat(item):
            return _end_bytes(item, step)
        case Choice(items):
            return reduce(or_, (_end_bytes(item, step) for item in items))
        case Sequence(items):
            mask = 0
            for item in items[::step]:
                mask |= _end_bytes(item, step)
                if not is_nullable(item):
                    break
            return mask


def _is_blind(edge: Node) -> bool:
    width = longest(edge)
    masks = [each.mask & _AROUND for each in leaves(edge) if isinstance(each, Bytes)]
    return width is not None and width <= _MAX_EDGE and all(m in (0, _AROUND) for m in masks)


def _takes(node: Node, mask: int) -> bool:
    return any(isinstance(each, Bytes) and each.mask & mask for each in leaves(node))


def _has_line_anchor(node: Node) -> bool:
    return any(isinstance(each, Anchor) and each.kind != "\\b" for each in leaves(node))
