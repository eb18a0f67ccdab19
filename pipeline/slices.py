"""The unit of reading, writing and committing: a contiguous offset range, already masked.

A `MaskedSlice` is the only thing that travels between pipeline steps; no raw byte is in it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pyarrow as pa
from apache_beam.coders import Coder

Table = Literal["events", "runs", "dead_letters"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `[start, end)` that hold no row; `reason` is one of `GAP_REASONS`."""

    start: int
    end: int
    reason: str


GAP_REASONS = {
    "expired-in-topic": "the topic's own retention removed the records before they were read",
    "not-delivered": "transaction markers, aborted or compacted records: the broker never hands them out",
    "lost-before-redo": "an intent was redone after the topic had lost its records",
}


@dataclass(frozen=True, slots=True)
class SliceHeader:
    """What a slice covers and what made it: enough to redo it exactly.

    Offsets `[start, end)` of one partition; `now_us` is the one clock reading (epoch microseconds)
    that every row of the slice shares; `ruleset` and `policy` are digests of documents kept in the
    lake's log.  `counts` has messages, events, dead_letters, refused, bytes;
    `redactions` counts by rule id, `dead_letter_codes` by reason code.
    """

    topic: str
    partition: int
    start: int
    end: int
    now_us: int
    ruleset: str
    policy: str
    key_id: str
    counts: Mapping[str, int] = field(default_factory=dict)
    redactions: Mapping[str, int] = field(default_factory=dict)
    dead_letter_codes: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one file to be: one table, one retention class, one bucket (`expires`)."""

    table: Table
    retention_class: str
    expires: str  # "YYYY-MM-DDTHH", UTC
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class MaskedSlice:
    header: SliceHeader
    parts: tuple[Part, ...]


class MaskedSliceCoder(Coder):
    """JSON header and Arrow streams, so that a runner can carry slices between processes."""

    def encode(self, value: MaskedSlice) -> bytes:
        parts = [_part_to_ipc(part) for part in value.parts]
        head = {
            "header": asdict(value.header),
            "parts": [
                [part.table, part.retention_class, part.expires, len(data)]
                for part, data in zip(value.parts, parts, strict=True)
            ],
        }
        text = json.dumps(head, separators=(",", ":"), sort_keys=True).encode()
        return b"".join([len(text).to_bytes(8, "big"), text, *parts])

    def decode(self, encoded: bytes) -> MaskedSlice:
        size = int.from_bytes(encoded[:8], "big")
        head = json.loads(encoded[8 : 8 + size])
        at, parts = 8 + size, []
        for table, retention_class, expires, length in head["parts"]:
            rows = pa.ipc.open_stream(encoded[at : at + length]).read_all()
            parts.append(Part(table, retention_class, expires, rows))
            at += length
        return MaskedSlice(_header(head["header"]), tuple(parts))

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return MaskedSlice


def _part_to_ipc(part: Part) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.rows.schema) as stream:
        stream.write_table(part.rows)
    return sink.getvalue().to_pybytes()


def _header(fields: dict[str, Any]) -> SliceHeader:
    gaps = tuple(Gap(**gap) for gap in fields.pop("gaps"))
    return SliceHeader(**fields, gaps=gaps)
