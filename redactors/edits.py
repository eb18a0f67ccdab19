"""Edits of a text: what is replaced by what, and the declarations that go with it."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

_OWN_LAYERS: Final = ((), ("json",))


class Mark(NamedTuple):
    """One change to declare.  Its place is known once all edits of its text are (`settle`)."""

    rule: str
    label: str
    action: str
    start: int | None = None
    end: int | None = None
    length: int | None = None
    layers: tuple[str, ...] = ()


class Edit(NamedTuple):
    """Puts `text` in the place of the code points `[start, end)`; `whole`: of a whole value.

    `lead` is how many code points of `text` stand before the mask (an added quote).
    """

    start: int
    end: int
    text: str
    marks: tuple[Mark, ...]
    whole: bool = False
    lead: int = 0


def apply(text: str, edits: Sequence[Edit]) -> str:
    """`text` with the ascending, disjoint `edits` made."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.text)
        position = edit.end
    pieces.append(text[position:])
    return "".join(pieces)


def compose(first: Sequence[Edit], second: Sequence[Edit]) -> list[Edit]:
    """`first` and then `second`, which stands in the edited text, as edits of the first text.

    An edit of `second` never cuts into what `first` put in; what it covers whole is dropped.
    """
    starts, ends, shift = [], [], 0  # where each edit of `first` stands in the edited text
    shifts = [0]
    for edit in first:
        starts.append(edit.start + shift)
        ends.append(edit.start + shift + len(edit.text))
        shift += len(edit.text) - (edit.end - edit.start)
        shifts.append(shift)
    moved = [
        edit._replace(
            start=_original(edit.start, first, starts, ends, shifts, False),
            end=_original(edit.end, first, starts, ends, shifts, True),
        )
        for edit in second
    ]
    kept = [e for e in first if not any(m.start <= e.start and e.end <= m.end for m in moved)]
    return sorted([*kept, *moved], key=lambda edit: (edit.start, edit.end))


def _original(
    place: int,
    first: Sequence[Edit],
    starts: list[int],
    ends: list[int],
    shifts: list[int],
    is_end: bool,
) -> int:
    index = bisect_right(starts, place) - 1
    if index >= 0 and place < ends[index]:
        return first[index].end if is_end and place > starts[index] else first[index].start
    return place - shifts[index + 1]


def settled(edits: Sequence[Edit]) -> list[Edit]:
    """The edits of one text with their marks' places in it after all of them.

    A document in a string is that string's own text; marks of deeper layers have places in those.
    """
    done: list[Edit] = []
    shift = 0
    for edit in edits:
        start = None if edit.whole else edit.start + shift + edit.lead
        end = None if edit.whole else edit.start + shift + len(edit.text) - edit.lead
        marks = tuple(
            mark._replace(start=start, end=end) if mark.layers in _OWN_LAYERS else mark
            for mark in edit.marks
        )
        done.append(edit._replace(marks=marks))
        shift += len(edit.text) - (edit.end - edit.start)
    return done
