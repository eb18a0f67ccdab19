"""Masked messages of one partition become one masked slice."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from pipeline.deltas import Deltas
from pipeline.lake.sealing import SEALED
from pipeline.masking import Coordinates, DeadLetter, Decoded, MaskedEvent, Masker, Refused, Result
from pipeline.shadow import distinct
from pipeline.slices import (
    FURTHER,
    Gap,
    MaskedSlice,
    Message,
    Part,
    Shadowed,
    SliceHeader,
    Table,
)
from pipeline.state.memories import Memories
from schemas.parquet import DEAD_LETTERS, EVENTS

SCHEMAS: dict[Table, pa.Schema] = {"events": EVENTS, "dead_letters": DEAD_LETTERS}

TOGETHER, TOGETHER_BYTES = 512, 1 << 20
"""Messages, and bytes of them, that wait to be masked together: their names cost less so."""


class SliceBuilder:
    """Collects what one slice holds, in offset order.

    `opened_s` is the monotonic time of its first message; `next_offset` is where it ends so far;
    `memories` are those of the partition's runs.
    """

    def __init__(self, start: int, now_us: int, opened_s: float, memories: Memories) -> None:
        self.start, self.now_us, self.opened_s = start, now_us, opened_s
        self.memories = memories
        self.next_offset = start
        self.size_bytes = 0
        self.records = 0
        self._further = 0
        self._waiting: list[Decoded] = []
        self._waiting_bytes = 0
        self._deltas: Deltas | None = None
        self._rows: dict[tuple[Table, str, str], list[dict[str, Any]]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._redactions: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()
        self._shadow: dict[str, list[str]] = defaultdict(list)
        self._gaps: list[Gap] = []
        self._sealed: set[str] = set()

    def take(self, messages: Sequence[Message], masker: Masker, at: Coordinates) -> None:
        """Takes the messages of the next record, to be masked with their neighbours; offsets that
        were skipped become a gap.  All of a slice come with the same `masker`.

        If the schema registry is away, it raises RegistryError and holds what it held before.
        """
        decoded = [masker.decoded(each) for each in messages]
        first = messages[0]
        size_bytes = len(first.record)
        self.skip_to(first.offset, "not-delivered")
        self.next_offset = first.offset + 1
        self.records += 1
        self.size_bytes += size_bytes
        self._further += len(messages) - 1
        self._waiting += decoded
        self._waiting_bytes += size_bytes
        if len(self._waiting) >= TOGETHER or self._waiting_bytes >= TOGETHER_BYTES:
            self._mask(masker, at)

    def _mask(self, masker: Masker, at: Coordinates) -> None:
        """Masks what waits."""
        if self._deltas is None:
            self._deltas = Deltas(masker.redactor.masks)
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._add(masker.take(waiting, at, self.now_us, self.memories, self._deltas))

    def _add(self, results: Iterable[Result]) -> None:
        for result in results:
            self._put(result)

    def _put(self, result: Result) -> None:
        match result:
            case MaskedEvent(placement, row, redactions, shadowed):
                self._counts["events"] += 1
                for redaction in redactions:
                    self._redactions[redaction.rule] += 1
                for hit in shadowed:
                    self._shadow[hit.rule].append(hit.sample)
                self._rows["events", placement.retention_class, placement.expires].append(row)
                if placement.sealed:
                    self._sealed.add(placement.retention_class)
            case DeadLetter(placement, row, code):
                self._counts["dead_letters"] += 1
                self._codes[code] += 1
                self._rows["dead_letters", placement.retention_class, placement.expires].append(row)
            case Refused():
                self._counts["refused"] += 1

    @property
    def messages(self) -> int:
        """How many there are: of a record with several events each."""
        return self.records + self._further

    def skip_to(self, offset: int, reason: str) -> None:
        """Declares `[next_offset, offset)` a gap, if it is not empty."""
        if offset > self.next_offset:
            self._gaps.append(Gap(self.next_offset, offset, reason))
            self.next_offset = offset

    def finish(
        self, topic_id: str, masker: Masker, at: Coordinates, encoding: str = ""
    ) -> MaskedSlice:
        """The slice `[start, next_offset)`, masked by one `masker`."""
        if self._waiting:
            self._mask(masker, at)
        if self._deltas is not None:
            self._add(masker.rest(at, self.now_us, self.memories, self._deltas))
        counts = {
            "messages": self.records,
            "events": self._counts["events"],
            "dead_letters": self._counts["dead_letters"],
            "refused": self._counts["refused"],
            "bytes": self.size_bytes,
        }
        counts |= {FURTHER: self._further} if self._further else {}
        header = SliceHeader(
            topic=at.topic,
            topic_id=topic_id,
            partition=at.partition,
            start=self.start,
            end=self.next_offset,
            now_us=self.now_us,
            ruleset=masker.redactor.digest,
            policy=masker.policy.digest,
            key_id=masker.redactor.key_id,
            counts=counts,
            redactions=dict(sorted(self._redactions.items())),
            dead_letter_codes=dict(sorted(self._codes.items())),
            shadow={
                rule: Shadowed(len(samples), distinct(samples))
                for rule, samples in sorted(self._shadow.items())
            },
            gaps=tuple(self._gaps),
            encoding=encoding,
        )
        for rows in self._rows.values():
            rows.sort(key=row_order)  # deltas came late
        parts = parts_of(self._rows, self._sealed)
        return MaskedSlice(header, parts, self.memories.take_change(self.now_us))


def row_order(row: Mapping[str, Any]) -> tuple[int, int]:
    """Offsets, and at one offset the events of its record, in their order."""
    return row["kafka_offset"], row["record_index"] or 0


def parts_of(
    rows: Mapping[tuple[Table, str, str], Sequence[dict[str, Any]]], sealed: Collection[str]
) -> tuple[Part, ...]:
    """Rows by (table, retention class, bucket) as the files to be; `sealed` are the classes whose
    content must be."""
    return tuple(
        Part(*place, _columns(_schema(place[0], is_sealed=place[1] in sealed), found))
        for place, found in sorted(rows.items())
    )


def _schema(table: Table, *, is_sealed: bool) -> pa.Schema:
    schema = SCHEMAS[table]
    if table != "events" or not is_sealed:
        return schema
    return schema.with_metadata({**(schema.metadata or {}), SEALED: b""})


def _columns(schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> pa.Table:
    columns = zip(*map(itemgetter(*schema.names), rows), strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
