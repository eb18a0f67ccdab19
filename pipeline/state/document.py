"""Open-run state as documents: what one commit changed, or, in a base, all there is.

A document is an Arrow stream of two batches, the sealed memories first, then the folded attempts,
each in the order in which its runs were last touched.  Its metadata names the document before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pipeline.errors import LogError

MEMORY: Final = -1
"""Stands in place of the attempt in an entry that holds a run's memory: that is the run's."""

_COLUMNS: Final[dict[str, pa.DataType]] = {
    "run_id": pa.string(),
    "attempt": pa.int32(),
    "seen_us": pa.int64(),
    "deadline_us": pa.int64(),
    "payload": pa.binary(),
}
_SCHEMA: Final = pa.schema(_COLUMNS)
_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of one run (`attempt` is MEMORY) or one attempt of it.

    `seen_us` is the clock reading of the slice that touched it last (epoch microseconds), and
    `deadline_us` the earliest deadline of the content in `payload` (None: it has none).  Without a
    payload the entry says that the run is gone.
    """

    run_id: str
    attempt: int
    seen_us: int
    payload: bytes | None
    deadline_us: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """`previous` is the digest of the document this one changes ("": it is a base); `now_us` the
    clock reading of its slice."""

    previous: str
    now_us: int
    memories: tuple[Entry, ...]
    attempts: tuple[Entry, ...]


def encode_document(document: Document) -> bytes:
    """The same document gives the same bytes."""
    schema = _SCHEMA.with_metadata(
        {"previous": document.previous, "now_us": str(document.now_us), "format": "1"}
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", _LEVEL))
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        for entries in (document.memories, document.attempts):
            stream.write_batch(_batch(entries, schema))
    return sink.getvalue().to_pybytes()


def decode_document(data: bytes, *, memories_only: bool = False) -> Document:
    """The document in `data`; with `memories_only` its attempts are not read.

    Raises LogError if it is none.
    """
    try:
        stream = pa.ipc.open_stream(data)
        about = stream.schema.metadata or {}
        memories = _entries(stream.read_next_batch())
        attempts = () if memories_only else _entries(stream.read_next_batch())
        return Document(about[b"previous"].decode(), int(about[b"now_us"]), memories, attempts)
    except (pa.ArrowException, KeyError, ValueError, StopIteration) as error:
        raise LogError(
            "a document of the open-run state is damaged",
            code="state-damaged",
            hint="restore the file: the runs that are open cannot be assembled without it",
        ) from error


def _batch(entries: Iterable[Entry], schema: pa.Schema) -> pa.RecordBatch:
    rows = list(entries)
    columns = [
        pa.array([getattr(entry, field.name) for entry in rows], field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _entries(batch: pa.RecordBatch) -> tuple[Entry, ...]:
    columns = [batch.column(name).to_pylist() for name in ("run_id", "attempt", "seen_us")]
    columns += [batch.column(name).to_pylist() for name in ("payload", "deadline_us")]
    return tuple(Entry(*row) for row in zip(*columns, strict=True))
