"""What is known of one attempt while it is open: compact, bounded, and nothing but masked."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final
from zlib import crc32

import orjson
import pyarrow as pa

MARKS_MAX: Final = 4096
"""Events of an attempt whose identity is remembered; one repeated after more than that is told by
its sequence alone."""

SPANS_MAX: Final = 512
ITEMS_MAX: Final = 256
"""Items of one row; of more the record says how many it leaves out."""

_CODEC: Final = pa.Codec("zstd", 1)


@dataclass(slots=True)
class Item:
    """What one event says for one row of the record.

    `content` is None once it had to go, and `is_whole` False if some of it was too large to be
    kept; `lifetime_us` and `deadline_us` are those of the event.  Items with the same `key` belong
    together: `role` says which of them this is, `completed` is the item that completes it.
    """

    sequence: int
    offset: int
    event_id: str
    digest: str
    deadline_us: int
    lifetime_us: int
    redactions: int
    content: dict[str, Any] | None
    is_whole: bool = True
    key: str = ""
    role: str = ""
    completed: "Item | None" = None


@dataclass(slots=True)
class Seen:
    """Which sequence numbers an attempt has shown: spans of them, and marks of single events."""

    spans: list[list[int]] = field(default_factory=list)
    marks: dict[int, None] = field(default_factory=dict)
    forgotten: int = -1
    conflicts: int = 0

    def add(self, sequence: int, event_id: str, *, is_number: bool = True) -> bool:
        """Takes an event in; False if the same event was here before.

        Where its `sequence` `is_number` of nothing, that is told only while its mark is remembered.
        """
        mark = (sequence & 0x7FFFFFFF) << 32 | crc32(event_id.encode("utf-8", "surrogatepass"))
        if mark in self.marks:
            return False
        if is_number:
            is_new = self._widen(sequence)
            if not is_new and sequence <= self.forgotten:
                return False
            self.conflicts += not is_new
        self.marks[mark] = None
        if len(self.marks) > MARKS_MAX:
            oldest = next(iter(self.marks))
            del self.marks[oldest]
            self.forgotten = max(self.forgotten, oldest >> 32)
        return True

    def holes(self) -> list[tuple[int, int]]:
        """The stretches of sequence numbers, first and last, that are missing."""
        ends = [-1, *(last for _, last in self.spans)]
        starts = [first for first, _ in self.spans]
        pairs = zip(ends, starts, strict=False)
        return [(end + 1, first - 1) for end, first in pairs if end + 1 < first]

    def _widen(self, sequence: int) -> bool:
        """Takes a number into the spans; False if it was in one."""
        spans = self.spans
        at = bisect_right(spans, [sequence, 2**63])
        before = spans[at - 1] if at else None
        if before and sequence <= before[1]:
            return False
        after = spans[at] if at < len(spans) else None
        joins_before = before is not None and before[1] == sequence - 1
        joins_after = after is not None and after[0] == sequence + 1
        if joins_before and joins_after:
            assert before and after
            before[1] = after[1]
            del spans[at]
        elif before and joins_before:
            before[1] = sequence
        elif after and joins_after:
            after[0] = sequence
        else:
            spans.insert(at, [sequence, sequence])
            if len(spans) > SPANS_MAX:  # the narrowest way: the oldest hole is taken for filled
                spans[0][1] = spans[1][1]
                del spans[1]
        return True


@dataclass(slots=True)
class RunState:
    """One attempt; `place` is (sequence, retention class, its lifetime and bucket, deadline) of the
    event that the record's own class follows; `status` is None while the run goes on, `late` counts
    events after its end, `unnumbered` those that no sequence counts; times are epoch microseconds.
    """

    run_id: str
    attempt: int
    seen: Seen = field(default_factory=Seen)
    place: list[Any] = field(default_factory=list)
    status: str | None = None
    late: int = 0
    events: int = 0
    doubled: int = 0
    first_offset: int = 0
    last_offset: int = 0
    started_us: int = 0
    ended_us: int = 0
    earliest_deadline_us: int = 0
    parent_run_id: str | None = None
    retry_of: str | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    redactions: dict[str, int] = field(default_factory=dict)
    items: dict[str, list[Item]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    unnumbered: int = 0

    @property
    def may_repeat(self) -> bool:
        """Whether an event that comes may have been here before without anybody knowing."""
        return bool(self.unnumbered) and self.seen.forgotten >= 0

    def content_deadline_us(self) -> int | None:
        """The earliest deadline of the content held here."""
        held = [item.deadline_us for item in self._every_item() if item.content is not None]
        return min(held, default=None)

    def drop_content_before(self, time_us: int) -> None:
        """Lets go of content whose deadline comes before `time_us`."""
        for item in self._every_item():
            if item.deadline_us < time_us:
                item.content = None

    def _every_item(self) -> Iterator[Item]:
        for item in (item for items in self.items.values() for item in items):
            yield item
            if item.completed is not None:
                yield item.completed


def pack(state: RunState) -> bytes:
    """The state as bytes; equal states give equal bytes."""
    seen = [state.seen.spans, list(state.seen.marks), state.seen.forgotten, state.seen.conflicts]
    items = {row: [_item_as_list(item) for item in found] for row, found in state.items.items()}
    values = [getattr(state, name) for name in _PLAIN]
    data = orjson.dumps([values, seen, items])
    return len(data).to_bytes(4, "big") + _CODEC.compress(data, asbytes=True)


def unpack(payload: bytes) -> RunState:
    """The state that `pack` packed."""
    size = int.from_bytes(payload[:4], "big")
    values, seen, items = orjson.loads(_CODEC.decompress(payload[4:], size, asbytes=True))
    state = RunState(**dict(zip(_PLAIN, values, strict=False)))  # an older one has fewer
    spans, marks, forgotten, conflicts = seen
    state.seen = Seen(spans, dict.fromkeys(marks), forgotten, conflicts)
    state.items = {row: [_item_of(item) for item in found] for row, found in items.items()}
    return state


_PLAIN: Final = tuple(f.name for f in fields(RunState) if f.name not in ("seen", "items"))


def _item_as_list(item: Item) -> list[Any]:
    completed = _item_as_list(item.completed) if item.completed else None
    return [
        item.sequence,
        item.offset,
        item.event_id,
        item.digest,
        item.deadline_us,
        item.lifetime_us,
        item.redactions,
        item.content,
        item.is_whole,
        item.key,
        item.role,
        completed,
    ]


def _item_of(values: list[Any]) -> Item:
    item = Item(*values)
    item.completed = _item_of(values[-1]) if values[-1] else None
    return item
