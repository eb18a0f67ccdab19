"""The documents of the commit log: canonical JSON, each naming the SHA-256 of the one before."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pipeline.errors import LogError
from pipeline.slices import FURTHER, UNRECOVERED, Gap, Shadowed, SliceHeader, Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = 2
"""Newest version of the documents; it rises when an older reader would misunderstand an entry."""

PLAIN, SEVERAL = 1, 2
"""The version of an entry where each record is an event, and where records hold several."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A published file: its key in the lake, rows, size and SHA-256 (hex) of its bytes.

    `sealed` names its keys in the key store; it is empty where nothing is sealed.
    """

    path: str
    table: Table
    rows: int
    size_bytes: int
    sha256: str
    sealed: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """What writer `claim` is about to do: enough for anyone to redo it exactly.

    Offsets `[start, end)`; `now_us` is the slice's clock reading (epoch microseconds); `previous`
    is the digest of commit `number - 1` ("" for the first).
    """

    topic: str
    topic_id: str
    partition: int
    number: int
    start: int
    end: int
    now_us: int
    ruleset: str
    policy: str
    key_id: str
    claim: str
    previous: str
    encoding: str = ""
    format: int = PLAIN

    def covers(self, header: SliceHeader) -> bool:
        """Whether a slice is the one announced here, byte for byte."""
        return all(getattr(self, name) == getattr(header, name) for name in _SHARED)


@dataclass(frozen=True, slots=True)
class Commit:
    """What was done; from here on its files belong to the lake.

    `counts`, `redactions`, `dead_letter_codes`, `shadow` and `gaps` are the slice's; `expired`
    counts rows whose bucket ended between intent and redo and that were not written; `state_digest`
    is that of the open-run state after this slice; `previous` is the digest of the intent.  An
    intent that could not be redone is closed by a commit with `superseded` (the reason) that covers
    nothing: `end == start`.
    """

    topic: str
    topic_id: str
    partition: int
    number: int
    start: int
    end: int
    now_us: int
    ruleset: str
    policy: str
    key_id: str
    claim: str
    previous: str
    files: tuple[FileEntry, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    redactions: Mapping[str, int] = field(default_factory=dict)
    dead_letter_codes: Mapping[str, int] = field(default_factory=dict)
    shadow: Mapping[str, Shadowed] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    expired: int = 0
    state_digest: str | None = None
    superseded: str | None = None
    encoding: str = ""
    format: int = PLAIN

    @property
    def further(self) -> int:
        """Events of records beyond the first of each."""
        return self.counts.get(FURTHER, 0)

    @property
    def gap_offsets(self) -> int:
        """What is in gaps: whole records, and single events of recovered ones."""
        return sum(gap.end - gap.start for gap in self.gaps) + self.counts.get(UNRECOVERED, 0)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Successive commits of a partition under one ruleset.

    Offsets `[start, end)`; `rows` counts events and dead letters; `first_us` and `last_us` are the
    clock readings (epoch microseconds) of the first and the last of the `commits`.  `ruleset` is
    "" where an older checkpoint does not say which it was.
    """

    ruleset: str
    start: int
    end: int
    commits: int
    rows: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What commits 1 to `number` came to; entries below `number` may be deleted.

    Offsets `[start, end)`; `files` are the slices' own that were not removed for good, those of
    events and dead letters with `rows` rows; these and `removed`, `refused`, `expired` and
    `gap_offsets` count every offset once, and the `further` events of records with several;
    `doubled` counts events that were there before.
    `last_digest` is that of commit `number`; `stretches` say which rulesets wrote them.
    """

    topic: str
    topic_id: str
    partition: int
    number: int
    start: int
    end: int
    files: tuple[FileEntry, ...]
    rows: int
    removed: int
    refused: int
    expired: int
    gap_offsets: int
    last_digest: str
    doubled: int = 0
    stretches: tuple[Stretch, ...] = ()
    further: int = 0
    format: int = PLAIN


@dataclass(frozen=True, slots=True)
class RewriteIntent:
    """The claim of one rewriter on a bucket; `purpose` is "sweep", "compact", "erase", "retry",
    "shorten", "rescrub"."""

    table: Table
    retention_class: str
    expires: str
    number: int
    purpose: str
    now_us: int
    claim: str
    previous: str
    format: int = PLAIN


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a rewriter did to a bucket: `removed` files are gone for good, `added` replace them.

    A retry of dead letters adds files to buckets of events, too; `further` counts, by slice's own
    file, the events beyond the first that each of these records turned out to hold.

    `origins` says for each added file how many of its rows came from each slice's own file; where
    it is empty, the one added file has every row of those removed.  `abandoned`: the intent was
    another rewriter's that never finished; nothing was done.

    A rescrub says under which ruleset (its digest) the rows of the added file stand now, and which
    ones those of the removed files named.
    """

    table: Table
    retention_class: str
    expires: str
    number: int
    purpose: str
    now_us: int
    claim: str
    previous: str
    removed: tuple[FileEntry, ...] = ()
    added: tuple[FileEntry, ...] = ()
    origins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    abandoned: bool = False
    ruleset: str = ""
    rulesets_before: tuple[str, ...] = ()
    further: Mapping[str, int] = field(default_factory=dict)
    format: int = PLAIN


@dataclass(frozen=True, slots=True)
class Cut:
    """What the rewrites 1 to `number` of a bucket came to, in which nothing is left: those of
    `finished` were not abandoned.  `last_digest` is that of commit `number`."""

    table: Table
    retention_class: str
    expires: str
    number: int
    finished: tuple[int, ...]
    last_digest: str
    format: int = PLAIN


_SHARED = (
    "topic", "topic_id", "partition", "start", "end", "now_us", "ruleset", "policy", "key_id",
    "encoding",
)  # fmt: skip
"""The fields that slice header, intent and commit have in common."""


def shared_fields(header: SliceHeader | Intent | Commit) -> dict[str, Any]:
    """The values that a slice's header, its intent and its commit have in common."""
    return {name: getattr(header, name) for name in _SHARED}


def version_of(encoding: str) -> int:
    """The version of entries about records that were read so."""
    return SEVERAL if encoding else PLAIN


def encode(entry: "DataclassInstance") -> bytes:
    """A dataclass as canonical JSON: sorted keys, no spaces, UTF-8, one line."""
    return canonical(asdict(entry))


def canonical(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON of plain values, as `encode` writes it."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{text}\n".encode()


def digest(document: bytes) -> str:
    """SHA-256 of a document, hex: what the next entry names as its `previous`."""
    return hashlib.sha256(document).hexdigest()


Entry = Intent | Commit | Checkpoint | RewriteIntent | Rewrite | Cut
_Entry = TypeVar("_Entry", Intent, Commit, Checkpoint, RewriteIntent, Rewrite, Cut)
_ADAPTERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (Intent, Commit, Checkpoint, RewriteIntent, Rewrite, Cut)
}


def decode(kind: type[_Entry], document: bytes) -> _Entry:
    """The entry that a document holds; `LogError` if it is not one, or of a newer format."""
    try:
        entry: _Entry = _ADAPTERS[kind].validate_json(document, strict=True)
    except ValidationError as error:
        raise LogError(
            "a log entry is no valid document",
            code="bad-entry",
            hint="the file was changed or cut short after it was written: restore it",
        ) from error
    if entry.format > FORMAT:
        raise LogError(
            "a log entry was written by a newer version", code="newer-format", hint="upgrade"
        )
    return entry
