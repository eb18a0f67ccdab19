"""Seeing through what hides text in text: percent and `\\u` escapes, fullwidth forms, zero widths.

A `View` is a text as it reads after one such decoding, with the way back: a finding in the view is
a finding at the place in the text that the view shows.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

# Blocks of fullwidth ASCII; characters without width; UTF-8 as percent escapes.
_FULLWIDTH: Final = "\uff01-\uff5e"
_INVISIBLE: Final = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_PLAIN: Final = re.compile(
    rf"[{_FULLWIDTH}]|[{_INVISIBLE}]++|\\u[0-9a-fA-F]{{4}}|\\x[0-9a-fA-F]{{2}}"
)
_PERCENT: Final = re.compile(r"(?:%[0-9a-fA-F]{2})++")
# The same for hyperscan, over UTF-8.
FOREIGN_PATTERNS: Final = (
    r"\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e]",
    r"\xc2\xad|\xcd\x8f|\xd8\x9c|\xe1\xa0\x8e|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xa4]",
    r"\xef\xbb\xbf",
)
HIDDEN_PATTERNS: Final = (*FOREIGN_PATTERNS, r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}")
PERCENT_PATTERN: Final = "%[0-9a-fA-F]{2}"
MAX_ROUNDS: Final = 3
"""How many times over a text may be encoded."""


_Pieces: TypeAlias = Callable[[str], list[tuple[str, int]]]


class View:
    """A text as it reads decoded.  Places in it map back to code points of the original."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._shown = [0]  # where a piece starts in the view …
        self._there = [0]  # … and in the original

    def mark(self, shown: int, there: int) -> None:
        """Notes that what the view shows from `shown` on stands from `there` on."""
        if shown == self._shown[-1]:
            self._there[-1] = there
        else:
            self._shown.append(shown)
            self._there.append(there)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that the view's `[start, end)` shows, `end > start`."""
        index = bisect_right(self._shown, start) - 1
        last = bisect_right(self._shown, end - 1) - 1
        first = self._there[index] + start - self._shown[index]
        if last + 1 < len(self._shown) and self._shown[last + 1] == end:
            return first, self._there[last + 1]
        return first, self._there[last] + end - self._shown[last]


def revealed(text: str) -> View:
    """`text` without what only changes its look."""
    return _decoded(text, _PLAIN, _plain_pieces)


def unquoted(text: str) -> View:
    """`text` with its percent escapes (RFC 3986) decoded."""
    return _decoded(text, _PERCENT, _percent_pieces)


def _decoded(text: str, pattern: re.Pattern[str], pieces_of: _Pieces) -> View:
    view = View(text)
    shown: list[str] = []
    length, position = 0, 0
    for match in pattern.finditer(text):
        start = match.start()
        shown.append(text[position:start])
        length += start - position
        for piece, width in pieces_of(match[0]):
            view.mark(length, start)
            shown.append(piece)
            length += len(piece)
            start += width
        position = match.end()
        view.mark(length, position)
    shown.append(text[position:])
    view.text = "".join(shown)
    return view


def _plain_pieces(found: str) -> list[tuple[str, int]]:
    """What a match reads as, with the width of each piece in the text."""
    first = found[0]
    if first == "\\":
        return [(chr(int(found[2:], 16)), len(found))]
    if "\uff01" <= first <= "\uff5e":
        return [(chr(ord(first) - 0xFEE0), 1)]
    return []


def _percent_pieces(found: str) -> list[tuple[str, int]]:
    data = bytes.fromhex(found.replace("%", ""))
    text = data.decode("utf-8", "surrogateescape")
    return [(character, 3 * len(_utf8(character))) for character in text]


def _utf8(character: str) -> bytes:
    return character.encode("utf-8", "surrogateescape")


def views(text: str) -> Iterator[tuple[View, ...]]:
    """What `text` reads as, decoded once, twice …: each view of the text of the one before."""
    chain: list[View] = []
    for _ in range(MAX_ROUNDS):
        before = len(chain)
        for decode in (unquoted, revealed):
            shown = chain[-1].text if chain else text
            view = decode(shown)
            if view.text != shown:
                chain.append(view)
                yield tuple(chain)
        if len(chain) == before:
            return
