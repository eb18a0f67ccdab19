"""Finds what the pattern rules find: candidates by hyperscan, exact spans by RE2."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple

import hyperscan

from redactors.compiled import BASE64, HIDDEN, MEMORY, PERCENT, Compiled, Matcher
from redactors.encoded import MIN_RUN
from redactors.errors import Unexaminable
from redactors.masks import Masks
from redactors.memory import RunMemory
from redactors.overlaps import Finding

_RETRY_SPAN_BYTES: Final = 512
_SHIFT: Final = 32
_END_MASK: Final = (1 << _SHIFT) - 1
# A text with more hits than these is refused: the work stays linear, and small, in its length.
_MIN_HITS: Final = 10_000
_BYTES_PER_HIT: Final = 8


class Cell(NamedTuple):
    """A text to search, under the name it goes by: it is searched as `name\\n: text`.

    The break keeps a pattern whose dots take no newline from reaching from a name into a value.
    `path` is where the text stands; None: it is no text that anybody writes prose in.
    """

    name: str
    text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What one cell holds: findings of pattern rules, and where (in `data`) each signal ends."""

    name: str
    text: str
    findings: list[Finding]
    signals: dict[str, list[int]]
    data: bytes  # what was searched
    lead: int  # bytes of `data` before the cell's text


class Finder:
    """Searches cells; every finding lies in one cell's text."""

    def __init__(self, compiled: Compiled, masks: Masks, memory: RunMemory) -> None:
        self._compiled, self._masks, self._memory = compiled, masks, memory

    def find(self, cells: Sequence[Cell], *, only_secrets: bool = False) -> dict[int, Found]:
        """What the cells hold, by the index of the cell, all in one scan.

        `only_secrets`: what rules for personal data would find is not looked at.
        """
        pieces = [f"{name}\n: {text}\n" if name else f"{text}\n" for name, text, _ in cells]
        whole = self._masks.blanked("".join(pieces))
        data = whole.encode("utf-8", "surrogatepass")
        hits = self._hits(data)
        if only_secrets:
            others = self._compiled.personal
            hits = array("Q", [hit for hit in hits if hit >> _SHIFT not in others])
        found = self._located(data, cells, pieces, hits) if hits else {}
        if self._compiled.recognizers is not None:
            self._recognize(cells, found)
        return found

    def _located(
        self, data: bytes, cells: Sequence[Cell], pieces: list[str], hits: "array[int]"
    ) -> dict[int, Found]:
        sizes = map(len if data.isascii() else _size_bytes, pieces)
        starts = [0, *accumulate(sizes)]
        by_cell = _by_cell(hits, starts)
        for pattern in self._compiled.once.intersection([hit >> _SHIFT for hit in hits]):
            hides = _HIDES[self._compiled.signals[pattern - len(self._compiled.matchers)]]
            for index, cell in enumerate(cells):
                if hides(cell.text):
                    by_cell.setdefault(index, {})[pattern] = []
        return {
            index: self._confirm(data[starts[index] : starts[index + 1] - 1], cells[index], ids)
            for index, ids in by_cell.items()
        }

    def _recognize(self, cells: Sequence[Cell], found: dict[int, Found]) -> None:
        """Adds the entities that a language model finds, in all texts at once."""
        where = [index for index, cell in enumerate(cells) if cell.path is not None]
        texts = [(cells[index].text, cells[index].path) for index in where]
        for index, entities in zip(where, self._compiled.recognizers.find(texts), strict=True):
            if entities:
                nothing = Found(cells[index].name, cells[index].text, [], {}, b"", 0)
                found.setdefault(index, nothing).findings.extend(entities)

    def _hits(self, data: bytes) -> "array[int]":
        """Where patterns may end, each packed as `pattern << _SHIFT | end`."""
        hits = array("Q")
        most = _MIN_HITS + len(data) // _BYTES_PER_HIT
        try:
            self._compiled.database.scan(data, match_event_handler=_collect, context=(hits, most))
        except hyperscan.ScanTerminated:
            raise Unexaminable("too-dense") from None
        if self._memory:
            index = len(self._compiled.matchers) + self._compiled.signals.index(MEMORY)
            hits.extend(index << _SHIFT | end for end in self._memory.ends(data))
        return hits

    def _confirm(self, data: bytes, cell: Cell, ids: dict[int, list[int]]) -> Found:
        matchers = self._compiled.matchers
        lead = _size_bytes(f"{cell.name}\n: ") if cell.name else 0
        found = Found(cell.name, cell.text, [], {}, data, lead)
        lowered = b""
        for index in sorted(ids):
            if index >= len(matchers):
                signal = self._compiled.signals[index - len(matchers)]
                found.signals.setdefault(signal, []).extend(ids[index])
                continue
            matcher = matchers[index]
            if matcher.keywords:
                lowered = lowered or data.lower()
                if not any(word in lowered for word in matcher.keywords):
                    continue
            for start, end in spans(matcher, data, ids[index]):
                span = in_text(found, start, end)
                if span is not None and not self.allowed(cell.text[slice(*span)]):
                    found.findings.append(Finding(*span, matcher.rule, index))
        return found

    def allowed(self, text: str) -> bool:
        """Whether the ruleset's allow-list says that `text` is no finding."""
        compiled = self._compiled
        if text in compiled.allowed:
            return True
        return bool(compiled.allowed_patterns) and any(
            pattern.fullmatch(text.encode("utf-8", "surrogatepass"))
            for pattern in compiled.allowed_patterns
        )


def in_text(found: Found, start: int, end: int) -> tuple[int, int] | None:
    """A span of bytes of `found.data` as code points of the cell's text; None: before it."""
    start, end = max(start, found.lead) - found.lead, end - found.lead
    if end <= start:
        return None
    if found.data.isascii():
        return start, end
    return _code_points(found.data[found.lead :], start, end)


def _collect(
    index: int, _start: int, end: int, _flags: int, context: "tuple[array[int], int]"
) -> bool:
    """Notes one hit; True stops the scan: the text is too dense to be examined."""
    hits, most = context
    hits.append(index << _SHIFT | end)
    return len(hits) > most


def _may_hold_run(text: str) -> bool:
    return len(text) >= MIN_RUN


def _may_hold_hidden(text: str) -> bool:
    return "\\" in text or not text.isascii()


# Whether a signal that is reported but once in a scan may concern a text.
_HIDES: Final[dict[str, Callable[[str], bool]]] = {
    BASE64: _may_hold_run,
    HIDDEN: _may_hold_hidden,
    PERCENT: lambda text: "%" in text,
}


def _size_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _by_cell(places: "array[int]", starts: Sequence[int]) -> dict[int, dict[int, list[int]]]:
    """By cell and pattern, where in the cell its matches may end."""
    found: dict[int, dict[int, list[int]]] = {}
    for place in places:
        end = place & _END_MASK
        cell = bisect_right(starts, end - 1) - 1
        found.setdefault(cell, {}).setdefault(place >> _SHIFT, []).append(end - starts[cell])
    return found


def spans(
    matcher: Matcher,
    data: bytes,
    ends: Sequence[int] | None = None,
    search: Callable[[bytes, int, int], Any] | None = None,
) -> Iterator[tuple[int, int]]:
    """Where the rule's group stands, in bytes, for every match that passes its conditions.

    `ends` are where the scanned form of the pattern ends, and the exact match is searched around
    them; None: anywhere.  `search` finds the next match in `data` between two places, None: the
    exact pattern does.
    """
    group, reached = matcher.rule.group, 0
    search = search or matcher.exact.search
    whole = [(0, len(data))]
    for low, high in whole if ends is None else _windows(matcher.longest, ends, len(data)):
        position, refused = max(low, reached), -1
        while (match := search(data, position, high)) is not None:
            start, end = match.span()
            excused = matcher.excuses(data[start:end])
            if not excused and matcher.accepts(match.group(group) or b""):
                yield match.span(group)
            elif not excused and end != refused and end - start <= _RETRY_SPAN_BYTES:
                # Another may begin inside the one refused; of those that end alike, one is tried.
                position, refused = start + 1, end
                continue
            position = max(end, start + 1)
        reached = position


def _windows(width: int | None, ends: Sequence[int], size: int) -> list[tuple[int, int]]:
    """The stretches in which a match of at most `width` bytes can stand around one of `ends`."""
    if width is None or 2 * width >= size:
        return [(0, size)]
    windows: list[tuple[int, int]] = []
    for end in sorted(ends):
        low, high = max(0, end - width - 1), min(size, end + width + 1)
        if windows and low <= windows[-1][1]:
            windows[-1] = (windows[-1][0], high)
        else:
            windows.append((low, high))
    return windows


def _code_points(data: bytes, start: int, end: int) -> tuple[int, int]:
    """A span of bytes as a span of code points; one that cuts a character takes it whole."""
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    before = len(data[:start].decode("utf-8", "surrogatepass"))
    return before, before + len(data[start:end].decode("utf-8", "surrogatepass"))
