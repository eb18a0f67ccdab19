"""The screen: one scan of a JSON text that says whether anything in it could be changed.

Where it says no, the text is passed on as it is, and no leaf is looked at.  It is derived from the
rules: each pattern as it stands in JSON, each field's name before a value, and whatever can hide
a finding from them.  It may hit for nothing, but never miss what an examination would change.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import re2

from redactors.cache import derived
from redactors.databases import Scanned, pattern_database
from redactors.encoded import CODE_PATTERNS, DATA_URL_PATTERN
from redactors.layers import FOREIGN_PATTERNS, PERCENT_PATTERN
from redactors.name_needles import name_needles
from redactors.needles import Needle, needles
from redactors.pattern import parse
from redactors.ruleset import FieldRule, Rule

MAX_LENGTH: Final = 24_000
"""Code points of a text that is screened: too short to be too dense to be examined."""

_CHECKED: Final = msgspec.json.Decoder(type=msgspec.Raw)  # reads without building anything
_SHAPES_BYTES: Final = 64 * 1024 * 1024
_PERCENT: Final = re.compile(PERCENT_PATTERN.encode())
_NUMBERED: Final = re.compile(rb"\\[ux]")
_MAX_LEVELS: Final = 4
_ESCAPES: Final = (
    (b'\\"', b'"'), (b"\\n", b"\n"), (b"\\t", b"\t"), (b"\\r", b"\r"), (b"\\/", b"/"),
    (b"\\b", b"\b"), (b"\\f", b"\f"),
)  # fmt: skip


NAMED: Final = 1_000_000
"""What the screen calls a value that may be given by name; a rule it calls by its index."""

DATA_URL: Final = 1_000_001
"""What it calls a data URL."""

_OTHER: Final = 1_000_002
_Refutes: TypeAlias = Callable[[int, bytes], bool]


class Screen:
    """The screen of one ruleset."""

    def __init__(
        self, rules: Sequence[Rule], fields: Sequence[FieldRule], labels: Iterable[str]
    ) -> None:
        self._keywords: dict[int, tuple[bytes, ...]] = {
            index: tuple(word.encode() for word in rule.keywords)
            for index, rule in enumerate(rules)
        }
        masks = rf"\[(?:{'|'.join(sorted(labels))})[\]:#]"
        found = [
            (needle, Scanned(rule.id, needle.pattern, index, once=True))
            for index, (rule, every) in enumerate(zip(rules, _needles(rules), strict=True))
            for needle in every
        ]
        others = [
            *((each, NAMED) for each in name_needles(fields)),
            *((Needle(each), _OTHER) for each in (masks, *CODE_PATTERNS)),
            (Needle(DATA_URL_PATTERN), DATA_URL),
            *((Needle(each, True), _OTHER) for each in FOREIGN_PATTERNS),
        ]
        found += [(each, Scanned("screen", each.pattern, kind, once=True)) for each, kind in others]
        placed = [(each, scanned) for each, scanned in found if not each.is_shape]
        self._ascii = pattern_database([scanned for each, scanned in placed if not each.is_foreign])
        self._foreign = pattern_database([scanned for each, scanned in placed if each.is_foreign])
        shapes = [scanned for each, scanned in found if each.is_shape]
        self._any_shape = _any_of([each.pattern for each in shapes]) if shapes else None
        self._shapes = pattern_database(shapes)

    def passes(self, body: str, refutes: _Refutes) -> bool:
        """Whether no part of the JSON text `body` can be changed; False also if it is no JSON.

        `refutes` says whether what the screen points at, by its id, is nothing in unescaped `text`.
        """
        if len(body) > MAX_LENGTH:
            return False
        try:
            text = body.encode()
            _CHECKED.decode(text)
            text = _unescaped(text)
        except (ValueError, RecursionError):  # no JSON, or one that only a closer look can tell
            return False
        for _ in range(_MAX_LEVELS):
            if self._may_be_read_otherwise(text):
                return False
            suspects = self._suspects(text)
            if suspects and not all(refutes(each, text) for each in suspects):
                return False
            before, text = text, _unescaped_again(text)
            if text == before:
                return True
        return False

    def _may_be_read_otherwise(self, text: bytes) -> bool:
        """Whether anything in `text` may hide a finding from a scan."""
        if b"\\" in text and _NUMBERED.search(text):
            return True
        return b"%" in text and _PERCENT.search(text) is not None

    def _suspects(self, text: bytes) -> set[int]:
        """What may be found in `text`."""
        found: set[int] = set()
        self._ascii.scan(text, match_event_handler=_note, context=found)
        if not text.isascii():
            self._foreign.scan(text, match_event_handler=_note, context=found)
        if self._any_shape and self._any_shape.search(text) is not None:
            self._shapes.scan(text, match_event_handler=_note, context=found)
        if not found:
            return found
        lowered = text.lower()
        return {index for index in found if self._counts(index, lowered)}

    def _counts(self, index: int, lowered: bytes) -> bool:
        words = self._keywords.get(index)
        return not words or any(word in lowered for word in words)


def _needles(rules: Sequence[Rule]) -> list[list[Needle]]:
    """What to scan for, by the rule."""
    return derived(
        "needles",
        [rule.pattern for rule in rules],
        list[list[Needle]],
        lambda: [needles(parse(rule.pattern, rule.id)) for rule in rules],
    )


def _note(index: int, _start: int, _end: int, _flags: int, found: set[int]) -> None:
    found.add(index)


def _any_of(patterns: Iterable[str]) -> Any:
    """One automaton for all patterns, whatever their number: it only says whether one matches."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _SHAPES_BYTES
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re2.compile(f"(?m:{joined})".encode("latin-1"), options)


def _unescaped(text: bytes) -> bytes:
    """JSON `text` with the escapes of its strings undone, as if they held no quotes.

    ValueError for numbered escapes beside escaped slashes or characters that are not ASCII.
    """
    if b"\\" not in text:
        return text
    has_slashes, has_numbered = b"\\/" in text, b"\\u" in text
    if not has_slashes and not has_numbered:  # each byte is read as a character, and written back
        return codecs.unicode_escape_decode(text)[0].encode("latin-1")
    if not has_numbered:
        return _unescaped_again(text)
    if has_slashes or not text.isascii():
        raise ValueError
    return codecs.unicode_escape_decode(text)[0].encode("utf-8", "surrogatepass")


def _unescaped_again(text: bytes) -> bytes:
    """The same for what may stand in strings of a document inside a string; other text stays."""
    if b"\\" not in text:
        return text
    text = text.replace(b"\\\\", b"\0")  # which stands in no JSON text
    for escape, plain in _ESCAPES:
        text = text.replace(escape, plain)
    return text.replace(b"\0", b"\\")
