"""The unit of reading, writing and committing: a contiguous offset range, already masked.

A `MaskedSlice` is the only thing that travels between pipeline steps; no raw byte is in it.  A
`Message` is what it is made of, and stays where it was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import pyarrow as pa

Table = Literal["events", "runs", "dead_letters"]

FROM_FILE: Final = "file:"
"""How the `topic_id` of what was read from a file begins."""

FURTHER: Final = "further"
"""Under this name a slice counts the events of records beyond the first of each."""

UNRECOVERED: Final = "unrecovered"
"""Under this name a slice counts events of records of which others were recovered and these not."""


@dataclass(frozen=True, slots=True)
class Member:
    """Which one, `index` from 0, of the `count` events that one record holds; `record` is all of
    its value."""

    index: int
    count: int
    record: bytes


class Message(NamedTuple):
    """One Kafka record; `timestamp_us` is the broker's (epoch microseconds; None: has none).

    Of a record that holds several events (`member` says which) each is a message.  `unfit` is the
    code for which an event could not be made a record's value ("": it is); `schema_header` is what
    the header holds that names a schema (None: there is none).
    """

    offset: int
    timestamp_us: int | None
    key: bytes | None
    value: bytes | None
    header_names: tuple[str, ...] = ()
    unfit: str = ""
    schema_header: bytes | None = None
    member: Member | None = None

    @property
    def record(self) -> bytes:
        """The value as it stands in the topic."""
        return (self.value if self.member is None else self.member.record) or b""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `[start, end)` that hold no row; `reason` is one of `GAP_REASONS`."""

    start: int
    end: int
    reason: str


GAP_REASONS = {
    "expired-in-topic": "the topic's own retention removed the records before they were read",
    "not-delivered": "transaction markers, aborted or compacted records: no consumer sees them",
    "lost-before-redo": "an intent was redone after the topic had lost its records",
}


@dataclass(frozen=True, slots=True)
class Shadowed:
    """What a rule in shadow would have masked: how often, and some of it as masked samples."""

    count: int
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SliceHeader:
    """What a slice covers and what made it: enough to redo it exactly.

    Offsets `[start, end)` of one partition of the topic with Kafka's id `topic_id` (for a file it
    begins with `FROM_FILE` and is a keyed hash of its events up to `end`); `now_us` is the one
    clock reading (epoch microseconds) that every row of the slice shares; `ruleset` and `policy`
    are digests of documents kept in the lake's log; `encoding` says how records were read ("": each
    is an event).  `counts` has messages, events, dead_letters, refused and bytes, and where records
    hold several events `FURTHER` and perhaps `UNRECOVERED`; `redactions` counts by rule id,
    `dead_letter_codes` by code; `shadow` has what rules in shadow would have done, by rule id.
    """

    topic: str
    topic_id: str
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
    shadow: Mapping[str, Shadowed] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one file to be: one table, one retention class, one bucket (`expires`)."""

    table: Table
    retention_class: str
    expires: str  # "YYYY-MM-DDTHH", UTC
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class StateChange:
    """What a slice changes of the open-run state: a document (see `pipeline.state.document`).

    `previous` is the digest of the document it builds on; "" says that it stands alone.
    """

    document: bytes = b""
    previous: str = ""


@dataclass(frozen=True, slots=True)
class MaskedSlice:
    """A slice's header and its rows, dealt out to the files they will be.

    The reader hands on what changed of the runs' memories, sealed; the assembler makes it part of
    what changed of the whole state.
    """

    header: SliceHeader
    parts: tuple[Part, ...]
    memories: bytes = b""
    state: StateChange = StateChange()
