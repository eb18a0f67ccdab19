"""Masked and raw values side by side: whether one is the other, and where they first differ.

A mask stands for a text.  Where it carries a keyed hash, the text is checked against it, under the
key that the mask names; a mask without one takes any text, and that is counted.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from redactors import KeyRing
from redactors.masks import Masks

MAX_TRIES: Final = 2_000
"""Texts that are tried for the masks of one leaf."""

MASKED_MAX: Final = 4_096
"""Code points of a text that a mask is tried for, unless it is the rest."""

_PARTS: Final = re.compile(r"\[([A-Z][A-Z0-9_]*)(?::(len=\d+|[a-z0-9]+:[A-Z2-7]{16}))?(?:#\d+)?\]")
_LABELLED: Final = re.compile(r"\[([A-Z][A-Z0-9_]{0,40}):[a-z0-9]{1,16}:[A-Z2-7]{16}\]")


@dataclass(frozen=True, slots=True)
class Difference:
    """Two values at a JSON pointer that are not the same; both masked.  None may mean absent."""

    path: str
    recorded: Any
    asked: Any


@dataclass(slots=True)
class MaskedText:
    """Compares texts; `by_label` counts the masks that were matched by nothing but their label."""

    masks: Masks
    keys: KeyRing | None
    lost_keys_by_label: bool = False
    by_label: int = 0
    _under: dict[str, Masks] = field(default_factory=dict)

    def same(self, one: str, other: str) -> bool:
        """Whether two texts are the same, masks of either standing for text of the other."""
        if one == other:
            return True
        if self.lost_keys_by_label and _unkeyed(one) == _unkeyed(other):
            self.by_label += len(_LABELLED.findall(one))
            return True
        pairs = self.pairs(one, other)
        self.by_label += sum(":" not in mask for mask, _ in pairs or ())
        return pairs is not None

    def pairs(self, one: str, other: str) -> list[tuple[str, str]] | None:
        """Each mask of one text with the text of the other that it stands for; None if the texts
        are not the same."""
        spans = self.masks.spans(one), self.masks.spans(other)
        return _Alignment(self, (one, other), spans).find() if any(spans) else None

    def stands_for(self, mask: str, text: str) -> bool:
        """Whether a mask may stand for a text."""
        found = _PARTS.fullmatch(unquote(mask))
        if found is None or not text:
            return False
        label, told = found.groups()
        if told is None:
            return True
        if told.startswith("len="):
            return told == f"len={len(text)}"
        key_id = told.partition(":")[0]
        if self.keys is None or key_id not in self.keys.keys:
            return False
        if key_id not in self._under:
            self._under[key_id] = Masks((), self.keys.with_current(key_id))
        hashed = self._under[key_id].hashed(label, text.encode("utf-8", "surrogatepass"))
        return hashed == f"[{label}:{told}]"


class _Alignment:
    """Reads two texts side by side: equal pieces, equal masks, and masks that stand for a piece of
    the other.  Where a mask could end in several places each is tried, within `MAX_TRIES`."""

    def __init__(
        self,
        texts: MaskedText,
        both: tuple[str, str],
        spans: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    ) -> None:
        self._texts, self._both, self._tries = texts, both, 0
        self._ends = tuple(dict(each) for each in spans)
        self._starts = tuple([start for start, _ in each] for each in spans)

    def find(self) -> list[tuple[str, str]] | None:
        return self._from(0, 0)

    def _from(self, i: int, j: int) -> list[tuple[str, str]] | None:
        one, other = self._both
        while True:
            ends = self._ends[0].get(i), self._ends[1].get(j)
            if ends[0] and ends[1] and one[i : ends[0]] == other[j : ends[1]]:
                i, j = ends[0], ends[1]
                continue
            if ends[0] or ends[1]:
                return self._standing(0, i, j) or self._standing(1, j, i)
            size = min(self._plain(0, i), self._plain(1, j))
            if not size:
                return [] if (i, j) == (len(one), len(other)) else None
            if one[i : i + size] != other[j : j + size]:
                return None
            i, j = i + size, j + size

    def _plain(self, side: int, at: int) -> int:
        """How much of a text comes before its next mask."""
        starts = self._starts[side]
        index = bisect_left(starts, at)
        return (starts[index] if index < len(starts) else len(self._both[side])) - at

    def _standing(self, side: int, at: int, other_at: int) -> list[tuple[str, str]] | None:
        """Lets the mask at `at` stand for a piece of the other text, and goes on after both."""
        end, text, other = self._ends[side].get(at), self._both[side], self._both[1 - side]
        if end is None:
            return None
        mask, following = text[at:end], text[end : end + 1]
        for other_end in self._places(other, other_at, following, is_mask=end in self._ends[side]):
            piece = other[other_at:other_end]
            if not self._texts.stands_for(mask, piece):
                continue
            rest = self._from(*((end, other_end) if side == 0 else (other_end, end)))
            if rest is not None:
                return [(mask, piece), *rest]
        return None

    def _places(self, other: str, at: int, following: str, *, is_mask: bool) -> Iterator[int]:
        if not following:
            yield len(other)
            return
        for place in range(at + 1, min(len(other), at + MASKED_MAX) + 1):
            if is_mask or other[place : place + 1] == following:
                self._tries += 1
                if self._tries > MAX_TRIES:
                    return
                yield place


def first_difference(
    recorded: Any, masked: Any, raw: Any, texts: MaskedText, path: str = ""
) -> Difference | None:
    """Where a request differs from the recorded one.

    `masked` is the request under this replay's rules, `raw` the same as it was asked.
    """
    return next(differences(recorded, masked, raw, texts, path), None)


def differences(
    recorded: Any, masked: Any, raw: Any, texts: MaskedText, path: str = ""
) -> Iterator[Difference]:
    """All such places, in order."""
    if recorded == masked and type(recorded) is type(masked):
        return
    if isinstance(recorded, dict) and isinstance(masked, dict):
        yield from _in_objects(recorded, masked, raw, texts, path)
    elif isinstance(recorded, list) and isinstance(masked, list):
        raws = raw if isinstance(raw, list) and len(raw) == len(masked) else masked
        for index in range(max(len(recorded), len(masked))):
            here = f"{path}/{index}"
            if index >= len(recorded) or index >= len(masked):
                old = recorded[index] if index < len(recorded) else None
                yield Difference(here, old, masked[index] if index < len(masked) else None)
            else:
                yield from differences(recorded[index], masked[index], raws[index], texts, here)
    elif _is_same_number(recorded, masked):
        return
    elif not (isinstance(recorded, str) and _is_same_text(recorded, masked, raw, texts)):
        yield Difference(path, recorded, masked)


def _in_objects(
    recorded: dict[str, Any], masked: dict[str, Any], raw: Any, texts: MaskedText, path: str
) -> Iterator[Difference]:
    raws = dict(zip(masked, raw.values(), strict=False)) if isinstance(raw, dict) else {}
    for name in dict.fromkeys([*recorded, *masked]):
        here = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name in recorded and name in masked:
            inner = raws.get(name, masked[name])
            yield from differences(recorded[name], masked[name], inner, texts, here)
        else:
            yield Difference(here, recorded.get(name), masked.get(name))


def _is_same_number(recorded: Any, masked: Any) -> bool:
    numbers = (int, float)
    return (
        isinstance(recorded, numbers)
        and isinstance(masked, numbers)
        and isinstance(recorded, bool) == isinstance(masked, bool)
        and recorded == masked
    )


def _is_same_text(recorded: str, masked: Any, raw: Any, texts: MaskedText) -> bool:
    if isinstance(masked, str) and texts.same(recorded, masked):
        return True
    plain = raw if isinstance(raw, str) else json.dumps(raw)
    return texts.same(recorded, plain)


def _unkeyed(text: str) -> str:
    return _LABELLED.sub(r"[\1]", text)
