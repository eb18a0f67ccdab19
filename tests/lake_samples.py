"""Small masked slices for the lake's tests."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pipeline.lake.commits import SliceCommitter
from pipeline.lake.entries import Commit
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.removal import Remover
from pipeline.lake.store import Store
from pipeline.slices import Gap, MaskedSlice, Part, SliceHeader
from schemas.parquet import DEAD_LETTERS, EVENTS

NOW_US = 1_790_000_000_000_000  # 2026-09-21T14:13:20Z
HOUR_US = 3_600_000_000
DEADLINE_US = 1_792_591_200_000_000  # 2026-10-21T14:00:00Z
BUCKET = "2026-10-21T00"
DIGEST = "ab" * 32


def now() -> int:
    return NOW_US


def event(offset: int, **columns: Any) -> dict[str, Any]:
    """One row of `events`."""
    return {
        "event_id": f"event-{offset}",
        "run_id": f"run-{offset % 3}",
        "attempt": 1,
        "sequence": offset,
        "occurred_at": NOW_US - offset,
        "kind": "message",
        "body": f'{{"text":"number {offset}"}}',
        "producer": {"name": "test", "version": "1"},
        "redactions": [],
        "ruleset": DIGEST,
        "key_id": "k1",
        "kafka_topic": "runs",
        "kafka_partition": 0,
        "kafka_offset": offset,
        "ingested_at": NOW_US,
        "deadline": DEADLINE_US,
    } | columns


def dead_letter(offset: int, **columns: Any) -> dict[str, Any]:
    """One row of `dead_letters`."""
    return {
        "kafka_topic": "runs",
        "kafka_partition": 0,
        "kafka_offset": offset,
        "code": "invalid-json",
        "stage": "decode",
        "length_bytes": 9,
        "ruleset": DIGEST,
        "key_id": "k1",
        "ingested_at": NOW_US,
        "deadline": DEADLINE_US,
    } | columns


def rows(offsets: Iterable[int], **columns: Any) -> pa.Table:
    return pa.Table.from_pylist([event(offset, **columns) for offset in offsets], schema=EVENTS)


def dead_rows(offsets: Iterable[int], **columns: Any) -> pa.Table:
    listed = [dead_letter(offset, **columns) for offset in offsets]
    return pa.Table.from_pylist(listed, schema=DEAD_LETTERS)


def header(start: int, end: int, **fields: Any) -> SliceHeader:
    return replace(
        SliceHeader("runs", "topic-id", 0, start, end, NOW_US, DIGEST, DIGEST, "k1"), **fields
    )


def masked_slice(
    start: int,
    end: int,
    *,
    expires: tuple[str, ...] = (BUCKET,),
    dead: Iterable[int] = (),
    refused: Iterable[int] = (),
    gaps: tuple[Gap, ...] = (),
    partition: int = 0,
    ruleset: str = DIGEST,
    columns: Mapping[str, Any] | None = None,
) -> MaskedSlice:
    """Offsets `[start, end)`: dead letters, refused, gaps, and events dealt out to the buckets."""
    dead, refused = set(dead), set(refused)
    missing = {offset for gap in gaps for offset in range(gap.start, gap.end)}
    events = [o for o in range(start, end) if o not in dead | refused | missing]
    shared = {"kafka_partition": partition, "ruleset": ruleset}
    parts = [
        Part("events", "default", bucket, rows(dealt, **shared, **(columns or {})))
        for index, bucket in enumerate(expires)
        if (dealt := [o for o in events if (o - start) % len(expires) == index])
    ]
    if dead:
        table = dead_rows(sorted(dead), **shared)
        parts.append(Part("dead_letters", "default", expires[0], table))
    counts = {
        "messages": len(events) + len(dead) + len(refused),
        "events": len(events),
        "dead_letters": len(dead),
        "refused": len(refused),
    }
    about = header(
        start, end, partition=partition, ruleset=ruleset, policy=ruleset, counts=counts, gaps=gaps
    )
    return MaskedSlice(about, tuple(parts))


def ingest(store: Store, masked: MaskedSlice, claim: str | None = None) -> Commit:
    """Writes and commits one slice as a writer of its own."""
    committer = SliceCommitter(store, claim or new_claim(), now)
    written = committer.write(masked)
    assert written is not None
    return committer.commit(written)


def sweep(store: Store, buckets: Iterable[Bucket], now_us: int) -> None:
    """Removes the buckets that have ended, as `redactory retention sweep` does."""
    remover = Remover(
        store,
        purpose="sweep",
        claim=new_claim(),
        now_us=now_us,
        keep_in=lambda bucket: None,
        note=lambda going: None,
        with_strays=True,
    )
    for bucket in buckets:
        if bucket.starts_us <= now_us:
            remover.remove(bucket)
