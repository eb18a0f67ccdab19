"""The documents of the commit log: canonical JSON, each naming the SHA-256 of the one before."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pipeline.errors import LogError
from pipeline.slices import Gap, SliceHeader, Table

FORMAT = 1
"""Version of the documents; it rises when an older reader would misunderstand a newer entry."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A published file: its key in the lake, rows, size and SHA-256 (hex) of its bytes."""

    path: str
    table: Table
    rows: int
    size_bytes: int
    sha256: str


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
    format: int = FORMAT

    def covers(self, header: SliceHeader) -> bool:
        """Whether a slice is the one announced here, byte for byte."""
        return all(getattr(self, name) == getattr(header, name) for name in _SHARED)


@dataclass(frozen=True, slots=True)
class Commit:
    """What was done; from here on its files belong to the lake.

    `counts`, `redactions`, `dead_letter_codes` and `gaps` are the slice's; `expired` counts rows
    whose bucket ended between intent and redo and that were not written; `state_digest` is that of
    the open-run state after this slice; `previous` is the digest of the intent.  An intent that
    could not be redone is closed by a commit with `superseded` (the reason) that covers nothing:
    `end == start`.
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
    gaps: tuple[Gap, ...] = ()
    expired: int = 0
    state_digest: str | None = None
    superseded: str | None = None
    format: int = FORMAT


_SHARED = (
    "topic", "topic_id", "partition", "start", "end", "now_us", "ruleset", "policy", "key_id"
)  # fmt: skip
"""The fields that slice header, intent and commit have in common."""


def shared_fields(header: SliceHeader | Intent) -> dict[str, Any]:
    return {name: getattr(header, name) for name in _SHARED}


def encode(entry: object) -> bytes:
    """A dataclass as canonical JSON: sorted keys, no spaces, UTF-8, one line."""
    text = json.dumps(asdict(entry), sort_keys=True, separators=(",", ":"), ensure_ascii=False)  # type: ignore[call-overload]
    return f"{text}\n".encode()


def digest(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()


_Entry = TypeVar("_Entry", Intent, Commit)
_INTENT = TypeAdapter(Intent)
_COMMIT = TypeAdapter(Commit)


def decode_intent(document: bytes) -> Intent:
    return _decode(_INTENT, document)


def decode_commit(document: bytes) -> Commit:
    return _decode(_COMMIT, document)


def _decode(adapter: TypeAdapter[_Entry], document: bytes) -> _Entry:
    try:
        entry = adapter.validate_json(document, strict=True)
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
