"""Reads one run from a lake: its records and events, and little else.

Where the log says which slice a file came from, files of other offsets are not opened.  Of the
others only the row groups whose statistics admit the run are looked at, `run_id` first.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import LakeError, UsageError
from pipeline.lake.entries import FileEntry
from pipeline.lake.layout import parse_data_file
from pipeline.lake.live import Lake
from pipeline.lake.local import LocalStore
from pipeline.lake.sealing import CONTENT, has_keys, unsealing
from pipeline.lake.store import VERIFY_HINT, Store, lake_errors
from pipeline.retention.tombstones import Tombstone

_READERS: Final = 8

_TAIL: Final = 8
"""Bytes at the end of a Parquet file: the length of its footer, and the format's name."""

_SEALED_AWAY: Final[Mapping[str, Any]] = {"body": None, "redactions": []}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunView:
    """What a lake holds of one run.

    `records` are the latest of each attempt; `events` are in order of attempt and sequence, each
    once, with the `file` it stands in; `bytes_read` of `bytes_total` were read of the two tables.
    The `body` of an event is None where it is sealed and its keys are not here.  `removals` say
    what went of the run before, if that was asked for.
    """

    run_id: str
    records: tuple[Row, ...]
    events: tuple[Row, ...]
    bytes_read: int
    bytes_total: int
    removals: tuple[Tombstone, ...] = ()

    @property
    def files(self) -> frozenset[str]:
        """The files in which the rows stand."""
        return frozenset(row["file"] for row in (*self.records, *self.events))

    @property
    def is_partial(self) -> bool:
        """Whether there was more of the run than is here: events of a record or of a sequence, or
        the record of an end."""
        attempts = {event["attempt"] for event in self.events}
        recorded = {record["attempt"]: record["events"] for record in self.records}
        for attempt in attempts | set(recorded):
            mine = [event for event in self.events if event["attempt"] == attempt]
            steps = {event["sequence"] for event in mine if is_numbered(event)}
            has_ended = any(event["kind"] == "run.finished" for event in mine)
            if len(mine) < recorded.get(attempt, 0) or len(steps) <= max(steps, default=-1):
                return True
            if has_ended and attempt not in recorded:
                return True
        return False


def read_run(lake: Lake, run_id: str) -> RunView:
    """Everything about a run; UsageError if the lake does not know it."""
    versions, read_runs = _rows_of(lake.store, lake.files["runs"], run_id)
    files = _may_hold(lake, versions)
    events, read_events = _rows_of(lake.store, files, run_id)
    if not (versions or events):
        raise UsageError(
            "the lake has no run with this id",
            code="unknown-run",
            hint="`redactory runs list` shows which there are",
        )
    total = sum(file.size_bytes for table in ("runs", "events") for file in lake.files[table])
    latest = _latest(versions)
    return RunView(run_id, latest, _once(events), read_runs + read_events, total)


def _may_hold(lake: Lake, records: Iterable[Row]) -> list[FileEntry]:
    """The files of events in which a run may be: every one while it has no record."""
    spans = [(r["kafka_topic"], r["kafka_partition"], r["first_offset"]) for r in records]
    if not spans:
        return list(lake.files["events"])
    slices = {
        (history.topic, history.partition, commit.number): commit
        for history in lake.histories
        for commit in history.commits
    }
    kept = []
    for file in lake.files["events"]:
        parsed = parse_data_file(file.path)
        place = (parsed.topic, parsed.partition) if parsed else None
        commit = slices.get((*place, parsed.number)) if parsed and place else None
        # A run goes on after its record at times, so only what lies before it is left out.
        if commit is None or any(
            place == (topic, partition) and commit.end > first for topic, partition, first in spans
        ):
            kept.append(file)
    return kept


def _rows_of(store: Store, files: Iterable[FileEntry], run_id: str) -> tuple[list[Row], int]:
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(lambda file: _rows_in(store, file, run_id), files))
    return [row for rows, _ in found for row in rows], sum(size for _, size in found)


def _rows_in(store: Store, file: FileEntry, run_id: str) -> tuple[list[Row], int]:
    with lake_errors(), _Counted.open(store, file.path) as source:
        try:
            metadata = _metadata(source)
            groups = list(_groups(metadata, run_id))
            rows = list(_rows_in_groups(store, file, source, metadata, groups, run_id))
        except pa.ArrowException as error:
            raise LakeError(
                f"{file.path} cannot be read", code="file-unreadable", hint=VERIFY_HINT
            ) from error
    return rows, source.bytes_read


def _metadata(source: "_Counted") -> pq.FileMetaData:
    """The footer, and not a byte more: Arrow would read the last 64 KB first."""
    size_bytes = source.seek(0, os.SEEK_END)  # not the log's: the file may have been changed since
    source.seek(max(0, size_bytes - _TAIL))
    tail = source.read(_TAIL)
    source.seek(max(0, size_bytes - _TAIL - int.from_bytes(tail[:4], "little")))
    footer = source.read(size_bytes - source.tell())
    return pq.read_metadata(pa.BufferReader(footer))


def _groups(metadata: pq.FileMetaData, run_id: str) -> Iterator[int]:
    """The row groups whose statistics admit the run."""
    columns = range(metadata.num_columns)
    column = next(index for index in columns if metadata.schema.column(index).path == "run_id")
    for group in range(metadata.num_row_groups):
        statistics: Any = metadata.row_group(group).column(column).statistics
        is_told = statistics is not None and statistics.has_min_max
        if not is_told or statistics.min <= run_id <= statistics.max:
            yield group


def _rows_in_groups(
    store: Store,
    file: FileEntry,
    source: "_Counted",
    metadata: pq.FileMetaData,
    groups: Sequence[int],
    run_id: str,
) -> Iterator[Row]:
    if not groups:
        return
    is_open = not file.sealed or has_keys(store.bucket_keys, file.sealed)
    parquet = pq.ParquetFile(
        _as_arrow(source),
        metadata=None if file.sealed else metadata,
        decryption_properties=(
            unsealing(store.bucket_keys, file.sealed) if file.sealed and is_open else None
        ),
    )
    for group in groups:
        for row in _rows_in_group(parquet, group, run_id, is_open=is_open):
            yield {**({} if is_open else _SEALED_AWAY), **row, "file": file.path}


def _as_arrow(source: Any) -> pa.NativeFile:
    return pa.PythonFile(source, mode="r")


def _rows_in_group(
    parquet: pq.ParquetFile, group: int, run_id: str, *, is_open: bool
) -> list[dict[str, Any]]:
    is_ours = pc.equal(_read_group(parquet, group, ["run_id"])["run_id"], pa.scalar(run_id))
    if not pc.any(is_ours).as_py():
        return []
    names = [name for name in parquet.schema_arrow.names if is_open or name not in CONTENT]
    rows: list[dict[str, Any]] = _read_group(parquet, group, names).filter(is_ours).to_pylist()
    return rows


def _read_group(parquet: pq.ParquetFile, group: int, names: list[str]) -> pa.Table:
    # `read_row_group` asks for the keys of columns that it was not asked for.
    rows = max(1, parquet.metadata.row_group(group).num_rows)
    batches = parquet.iter_batches(batch_size=rows, row_groups=[group], columns=names)
    return pa.Table.from_batches(batches)


def _latest(versions: Iterable[Row]) -> tuple[Row, ...]:
    latest: dict[int, Row] = {}
    for row in sorted(versions, key=lambda r: (r["version"], r["events"], r["last_offset"])):
        latest[row["attempt"]] = row
    return tuple(latest[attempt] for attempt in sorted(latest))


def _once(events: Iterable[Row]) -> tuple[Row, ...]:
    """Each event once, in order."""
    first: dict[tuple[int, str], Row] = {}
    for row in sorted(events, key=_place):
        first.setdefault((row["attempt"], row["event_id"]), row)
    return tuple(sorted(first.values(), key=lambda r: (r["attempt"], r["sequence"], *_place(r))))


def _place(event: Row) -> tuple[int, int]:
    return event["kafka_offset"], event.get("record_index") or 0


def is_numbered(event: Row) -> bool:
    """Whether the event's sequence is a number in its run, so that one that is missing shows."""
    return event.get("record_index") is None


class _Counted:
    """A file in the lake that counts what is read of it."""

    def __init__(self, stream: "IO[bytes] | Any") -> None:
        self._stream = stream
        self.bytes_read = 0
        self.closed = False

    @classmethod
    def open(cls, store: Store, key: str) -> "_Counted":
        if isinstance(store, LocalStore):
            return cls(Path(store.root / key).open("rb"))
        return cls(obstore.open_reader(store.objects, key))

    def __enter__(self) -> "_Counted":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        data = bytes(self._stream.read(size) if size >= 0 else self._stream.read())
        self.bytes_read += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()
