"""One data file against what was committed: bytes, schema, rows, and what its rules find in it."""

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.deadletters import CODES
from pipeline.errors import LakeError
from pipeline.lake import layout
from pipeline.lake.entries import FileEntry
from pipeline.lake.parquet import from_parquet, sealed_under, with_record_index
from pipeline.lake.proof.findings import Finding
from pipeline.lake.proof.leaks import LeakCheck
from pipeline.lake.sealing import CONTENT, has_keys
from pipeline.lake.store import Store
from pipeline.lake.tables import DECLARED

DAY_US = 86_400_000_000
"""The widest bucket there is."""

BATCH_ROWS = 1_000

Offsets = NDArray[np.int64]
Places = NDArray[np.int64]
"""Two rows: offsets, and which of the events of its record each is (0 where it is the record)."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Origin:
    """What the log says about the slice a file came from: its rows share these values."""

    topic: str
    partition: int
    start: int
    end: int
    now_us: int
    ruleset: str
    key_id: str


@dataclass(frozen=True, slots=True)
class FileTask:
    """A committed file to check; `origin` is None for a file that a rewrite made.

    `bucket_us` is the width of its bucket, in which the deadlines of its rows must lie.
    """

    entry: FileEntry
    origin: Origin | None
    bucket_us: int = DAY_US


@dataclass(slots=True)
class FileResult:
    """The places found in a file, by topic and partition, and what was wrong with it."""

    path: str
    rows: int = 0
    places: dict[tuple[str, int], Places] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def check_file(store: Store, task: FileTask, leaks: LeakCheck | None) -> FileResult:
    """Reads the file and checks everything that needs no other file."""
    result = FileResult(task.entry.path)
    try:
        data = store.get(task.entry.path)
    except LakeError as error:
        if error.code != "missing":
            raise
        _found(result, task, "file-missing", "", count=task.entry.rows)
        return result
    if hashlib.sha256(data).hexdigest() != task.entry.sha256:
        _found(result, task, "file-changed", f"{len(data)} bytes of {task.entry.size_bytes}")
    try:
        rows, leaks = _read(store, data, leaks)
    except (pa.ArrowException, OSError):
        _found(result, task, "file-unreadable", "", count=task.entry.rows)
        return result
    if not _has_declared_schema(rows.schema, DECLARED[task.entry.table]):
        _found(result, task, "schema-differs", "")
        return result
    result.rows = rows.num_rows
    if rows.num_rows != task.entry.rows:
        _found(result, task, "rows-differ", f"{rows.num_rows} of {task.entry.rows}")
    _check_rows(result, task, rows)
    if leaks is not None:
        _check_leaks(result, task, rows, leaks)
    return result


def _read(store: Store, data: bytes, leaks: LeakCheck | None) -> tuple[pa.Table, LeakCheck | None]:
    """The rows, and what can be asked of them: sealed content without its keys reads as null."""
    reference = sealed_under(data)
    if not reference or has_keys(store.bucket_keys, reference):
        return from_parquet(data, keys=store.bucket_keys), leaks
    schema = pq.read_schema(pa.BufferReader(data))
    rows = from_parquet(data, [name for name in schema.names if name not in CONTENT])
    for index, column in enumerate(schema):
        if column.name in CONTENT:
            rows = rows.add_column(index, column, pa.nulls(rows.num_rows, column.type))
    return rows, None


def _has_declared_schema(found: pa.Schema, declared: pa.Schema) -> bool:
    """Same columns and types; a file older than a nullable column may lack it."""
    missing = [field for field in declared if field.name not in found.names]
    return all(field.nullable for field in missing) and all(
        field.name in declared.names and field.type.equals(declared.field(field.name).type)
        for field in found
    )


def _check_rows(result: FileResult, task: FileTask, rows: pa.Table) -> None:
    is_read = task.entry.table != "runs"  # a record is made; it only says where its run ended
    offsets = rows["kafka_offset" if is_read else "last_offset"].to_numpy()
    topics, partitions = (rows[name].to_numpy() for name in ("kafka_topic", "kafka_partition"))
    for topic, partition in sorted(set(zip(topics, partitions, strict=True))) if is_read else ():
        mine = (topics == topic) & (partitions == partition)
        result.places[topic, int(partition)] = np.stack([offsets[mine], _indices(rows)[mine]])
    if (origin := task.origin) is not None:
        home = (offsets < origin.end) & _are_at_home(rows, origin)
        home &= (offsets >= origin.start) | (not is_read)
        _check_each(result, task, "row-misplaced", offsets, home)
    _check_each(result, task, "deadline-differs", offsets, _are_in_bucket(rows, task))
    if task.entry.table == "dead_letters":
        known: Flags = pc.is_in(rows["code"], pa.array(list(CODES))).to_numpy()
        _check_each(result, task, "code-unknown", offsets, known)


def _indices(rows: pa.Table) -> Offsets:
    """Which of the events of its record each row is."""
    column = with_record_index(rows)["record_index"].cast(pa.int64())
    return column.fill_null(pa.scalar(0, pa.int64())).to_numpy()


def _check_each(
    result: FileResult, task: FileTask, code: str, offsets: Offsets, right: Flags
) -> None:
    if not right.all():
        wrong = offsets[~right]
        _found(result, task, code, "", offset=int(wrong.min()), count=len(wrong))


def _are_at_home(rows: pa.Table, origin: Origin) -> Flags:
    home: Flags = _micros(rows, "ingested_at") == origin.now_us
    for name, expected in (
        ("kafka_topic", origin.topic),
        ("kafka_partition", origin.partition),
        ("ruleset", origin.ruleset),
        ("key_id", origin.key_id),
    ):
        home &= rows[name].to_numpy() == expected
    return home


def _are_in_bucket(rows: pa.Table, task: FileTask) -> Flags:
    bucket = layout.parse_bucket(task.entry.path)
    if bucket is None:
        return np.zeros(rows.num_rows, np.bool_)
    late_us = _micros(rows, "deadline") - bucket.starts_us
    return (late_us >= 0) & (late_us < task.bucket_us)


def _micros(rows: pa.Table, name: str) -> Offsets:
    return rows[name].cast(pa.int64()).to_numpy()


def _check_leaks(result: FileResult, task: FileTask, rows: pa.Table, leaks: LeakCheck) -> None:
    places: dict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)
    at = "last_offset" if task.entry.table == "runs" else "kafka_offset"
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        for row in batch.to_pylist():
            place = row["kafka_topic"], row["kafka_partition"], row[at]
            for found in leaks.check(task.entry.table, row):
                places[found].append(place)
    for (code, rule), concerned in sorted(places.items()):
        result.findings.append(
            Finding(*min(concerned), code, task.entry.path, rule, len(concerned))
        )


def _found(
    result: FileResult,
    task: FileTask,
    code: str,
    detail: str,
    *,
    offset: int | None = None,
    count: int = 1,
) -> None:
    origin = task.origin
    topic, partition, start = (
        (origin.topic, origin.partition, origin.start) if origin else ("", -1, -1)
    )
    at = start if offset is None else offset
    result.findings.append(Finding(topic, partition, at, code, task.entry.path, detail, count))
