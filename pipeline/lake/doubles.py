"""Where in a lake an event may stand once more, because its producer sent it twice.

Both rows are stored: they have offsets of their own.  Assembly counts what it has seen before, so
that whoever shows each event once need not compare all of them.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from pipeline.lake.entries import Commit
from pipeline.lake.history import History
from pipeline.lake.live import Lake

COUNT: Final = "doubled"
"""Under this name a slice counts the events that were there before; of a run without numbers that
has more events than are remembered, also those that may have been."""


class Range(NamedTuple):
    """Offsets `[start, end)` of a partition."""

    topic: str
    partition: int
    start: int
    end: int


def doubled_ranges(lake: Lake) -> tuple[Range, ...]:
    """The ranges in which rows may stand that repeat an earlier one; outside there are none."""
    # What became an event at a second look was not assembled.
    is_counted = not any(rewrite.purpose == "retry" and rewrite.added for rewrite in lake.rewrites)
    return tuple(each for history in lake.histories for each in _ranges(history, is_counted))


def _ranges(history: History, is_counted: bool) -> Iterator[Range]:
    place = history.topic, history.partition
    checkpoint = history.checkpoint
    if not is_counted and history.start is not None:
        yield Range(*place, history.start, history.position.next_offset or 0)
        return
    if checkpoint and checkpoint.doubled:
        yield Range(*place, checkpoint.start, checkpoint.end)
    for start, end in _stretches(history.commits):
        yield Range(*place, start, end)


def _stretches(commits: Iterable[Commit]) -> Iterator[tuple[int, int]]:
    """Neighbouring slices that count any, as one."""
    for has_any, group in groupby(commits, key=lambda commit: COUNT in commit.counts):
        found = sorted(group, key=attrgetter("start"))
        if has_any:
            yield found[0].start, found[-1].end
