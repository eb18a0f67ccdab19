"""The screen: one scan of a JSON text that says whether anything in it could be changed.

Where it says no, the text is passed on as it is, and no leaf is looked at.  It is derived from the
rules: each pattern as it stands in JSON, each field's name before a value, and whatever can hide
a finding from them.  It may hit for nothing, but never miss what an examination would change.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from redactors.assignments import screened_patterns
from redactors.boundaries import in_json
from redactors.databases import Scanned, pattern_database
from redactors.encoded import BASE64_PATTERNS
from redactors.layers import HIDDEN_PATTERNS, PERCENT_PATTERN
from redactors.loosen import beginning
from redactors.pattern import parse, render
from redactors.ruleset import FieldRule, Rule
from redactors.spelling import SEPARATORS, name_tree

MAX_LENGTH: Final = 24_000
"""Code points of a text that is screened: too short to be too dense to be examined."""

_MAX_LEVELS: Final = 4
_ESCAPES: Final = (
    (b'\\"', b'"'), (b"\\n", b"\n"), (b"\\t", b"\t"), (b"\\r", b"\r"), (b"\\/", b"/"),
    (b"\\b", b"\b"), (b"\\f", b"\f"),
)  # fmt: skip
_END_OF_NAME: Final = "[0-9" + "".join(f"\\x{ord(c):02x}" for c in SEPARATORS) + r"]*\n?\x22\s*"
_VALUE: Final = r':\s*["\[{0-9\x2d]'


class Screen:
    """The screen of one ruleset."""

    def __init__(
        self, rules: Sequence[Rule], fields: Sequence[FieldRule], labels: Iterable[str]
    ) -> None:
        self._keywords: dict[int, tuple[bytes, ...]] = {
            index: tuple(word.encode() for word in rule.keywords)
            for index, rule in enumerate(rules)
        }
        patterns = [
            Scanned(rule.id, beginning(tree), index, once=True)
            for index, rule in enumerate(rules)
            for tree in in_json(parse(rule.pattern, rule.id))
        ]
        others = [*_hiding(labels), *_fields(fields), *screened_patterns(fields)]
        patterns += [Scanned("screen", each, len(rules), once=True) for each in others]
        self._database = pattern_database(patterns)

    def passes(self, body: str) -> bool:
        """Whether no part of the JSON text `body` can be changed; False also if it is no JSON."""
        if len(body) > MAX_LENGTH:
            return False
        try:
            text = body.encode()
            orjson.loads(text)
        except ValueError:  # no JSON, or one that only a closer look can tell
            return False
        text = _unescaped(text)
        for _ in range(_MAX_LEVELS):
            if self._hits(text):
                return False
            before, text = text, _unescaped(text)
            if text == before:
                return True
        return False

    def _hits(self, text: bytes) -> bool:
        found: set[int] = set()
        self._database.scan(text, match_event_handler=_note, context=found)
        if not found:
            return False
        lowered = text.lower()
        return any(self._counts(index, lowered) for index in found)

    def _counts(self, index: int, lowered: bytes) -> bool:
        words = self._keywords.get(index)
        return not words or any(word in lowered for word in words)


def _note(index: int, _start: int, _end: int, _flags: int, found: set[int]) -> None:
    found.add(index)


def _unescaped(text: bytes) -> bytes:
    """`text` with one level of the escapes of JSON strings undone, but for `\\u`."""
    if b"\\" not in text:
        return text
    text = text.replace(b"\\\\", b"\0")  # which stands in no JSON text
    for escape, plain in _ESCAPES:
        text = text.replace(escape, plain)
    return text.replace(b"\0", b"\\")


def _hiding(labels: Iterable[str]) -> list[str]:
    """What stands in a text that reads otherwise than it is written, or that holds a mask."""
    masks = rf"\[(?:{'|'.join(sorted(labels))})[\]:#]"
    return [*HIDDEN_PATTERNS, PERCENT_PATTERN, *BASE64_PATTERNS, masks]


def _fields(fields: Sequence[FieldRule]) -> list[str]:
    """The name of a field before a value, or as a value that may name the one after it."""
    names = sorted({name for field in fields for name in field.names})
    return [
        f"(?i){_before(name)}{render(name_tree(name.removeprefix('*')))}{_END_OF_NAME}"
        f"(?:{_VALUE}|[,}}])"
        for name in names
    ]


def _before(name: str) -> str:
    return "" if name.startswith("*") else r"[^A-Za-z0-9]"
