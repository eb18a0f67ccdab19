"""What stands for rows that are gone: which, how many, why and when, and nothing of their content.

A tombstone is written before its rows are removed and counts only if the rewrite of its number was
finished.  Runs are named by keyed marks, so that only whoever holds the key can ask whether a run
was ever here.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pipeline.lake.entries import encode
from pipeline.lake.layout import AUDIT, Bucket
from pipeline.lake.removal import Going
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import Store
from pipeline.retention.documents import FORMAT, decode
from pipeline.slices import Table
from redactors import KeyRing

TOMBSTONES: Final = f"{AUDIT}/tombstones"
_MARK_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Span:
    """`rows` rows of a topic partition, at offsets from `first` to `last`."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What rewrite `number` removed from a bucket.

    `why` is the rewrite's purpose; `when_us` epoch microseconds; `runs` counts distinct runs;
    `run_marks` is base64 of 8 bytes for each run under key `key_id` ("": no key was given).
    """

    table: Table
    retention_class: str
    expires: str
    number: int
    why: str
    when_us: int
    files: int
    rows: int
    size_bytes: int
    runs: int
    spans: tuple[Span, ...]
    key_id: str
    run_marks: str
    format: int = FORMAT

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.table, self.retention_class, self.expires)

    def marks(self, run_id: str, keys: KeyRing) -> bool:
        """Whether rows of the run are among those that are gone."""
        if self.key_id not in keys.keys:
            return False
        marks = base64.b64decode(self.run_marks)
        wanted = _mark(run_id, keys, self.key_id)
        return any(
            marks[at : at + _MARK_BYTES] == wanted for at in range(0, len(marks), _MARK_BYTES)
        )


def entomb(going: Going, why: str, when_us: int, keys: KeyRing | None) -> Tombstone:
    """The tombstone of what is about to go."""
    names = going.rows.column_names
    runs = going.rows["run_id"].unique().to_pylist() if "run_id" in names else []
    marks = sorted(_mark(run, keys, keys.current) for run in runs if run) if keys else []
    return Tombstone(
        going.bucket.table,
        going.bucket.retention_class,
        going.bucket.expires,
        going.number,
        why,
        when_us,
        len(going.files) + len(going.strays),
        going.rows.num_rows + going.unread,
        sum(file.size_bytes for file in (*going.files, *going.strays)),
        len(runs),
        tuple(_spans(going.rows)) if "kafka_offset" in names else (),
        keys.current if keys else "",
        base64.b64encode(b"".join(marks)).decode(),
    )


def write_tombstone(store: Store, tombstone: Tombstone) -> None:
    """Keeps a tombstone; one of a rewrite that was never finished may stand under other numbers."""
    store.put_if_absent(_key(tombstone.bucket, tombstone.number), encode(tombstone))


def read_tombstone(store: Store, bucket: Bucket, number: int) -> Tombstone:
    """The tombstone of a rewrite; `LakeError` ("missing") if there is none."""
    return decode(Tombstone, store.get(_key(bucket, number)))


def read_tombstones(store: Store) -> Iterator[Tombstone]:
    """Every tombstone whose rewrite was finished, by bucket."""
    found = [
        decode(Tombstone, store.get(key))
        for key in sorted(item.key for item in store.walk(TOMBSTONES))
    ]
    yield from _finished(store, found)


def removals_of_run(store: Store, run_id: str, keys: KeyRing) -> tuple[Tombstone, ...]:
    """What is gone of a run, oldest first: none means that nothing of it was ever removed here."""
    marked = (tombstone for tombstone in read_tombstones(store) if tombstone.marks(run_id, keys))
    return tuple(sorted(marked, key=lambda tombstone: tombstone.when_us))


def removals_at(
    tombstones: Iterable[Tombstone], topic: str, partition: int, first: int, last: int
) -> tuple[Tombstone, ...]:
    """Those that may hold an event between two offsets: why a sequence has a hole there."""
    return tuple(
        tombstone
        for tombstone in tombstones
        if any(
            (span.topic, span.partition) == (topic, partition)
            and span.first <= last
            and span.last >= first
            for span in tombstone.spans
        )
    )


def _finished(store: Store, found: Iterable[Tombstone]) -> Iterator[Tombstone]:
    done: dict[Bucket, set[int]] = {}
    for tombstone in found:
        if tombstone.bucket not in done:
            log = BucketLog(store, tombstone.bucket)
            cut = log.cut()
            done[tombstone.bucket] = {r.number for r in log.rewrites() if not r.abandoned}
            done[tombstone.bucket] |= set(cut.finished if cut else ())
        if tombstone.number in done[tombstone.bucket]:
            yield tombstone


def _spans(rows: pa.Table) -> Iterator[Span]:
    grouped = rows.group_by(["kafka_topic", "kafka_partition"]).aggregate(
        [("kafka_offset", "min"), ("kafka_offset", "max"), ("kafka_offset", "count")]
    )
    for row in sorted(
        grouped.to_pylist(), key=lambda row: (row["kafka_topic"], row["kafka_partition"])
    ):
        yield Span(
            row["kafka_topic"],
            row["kafka_partition"],
            row["kafka_offset_min"],
            row["kafka_offset_max"],
            row["kafka_offset_count"],
        )


def _mark(run_id: str, keys: KeyRing, key_id: str) -> bytes:
    return keys.digest(key_id, "tombstone-run", run_id.encode())[:_MARK_BYTES]


def _key(bucket: Bucket, number: int) -> str:
    return f"{TOMBSTONES}/{bucket.table}/{bucket.retention_class}/{bucket.expires}/{number:012}"
