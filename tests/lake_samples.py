"""Small masked slices for the lake's tests."""

from typing import Any

import pyarrow as pa

from pipeline.slices import Gap, MaskedSlice, Part, SliceHeader

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("event_id", pa.string()),
    pa.field("run_id", pa.string()),
    pa.field("attempt", pa.int32()),
    pa.field("sequence", pa.int64()),
    pa.field("body", pa.string()),
    pa.field("subjects", pa.list_(pa.string())),
    pa.field("kafka_topic", pa.string()),
    pa.field("kafka_partition", pa.int32()),
    pa.field("kafka_offset", pa.int64()),
]
SCHEMA = pa.schema(_FIELDS)
NOW_US = 1_790_000_000_000_000  # 2026-09-21
DIGEST = "ab" * 32


def now() -> int:
    return NOW_US


def rows(offsets: range, *, topic: str = "runs", partition: int = 0) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "event_id": f"event-{offset}",
                "run_id": f"run-{offset % 3}",
                "attempt": 1,
                "sequence": offset,
                "body": f'{{"text":"number {offset}"}}',
                "subjects": None,
                "kafka_topic": topic,
                "kafka_partition": partition,
                "kafka_offset": offset,
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def masked_slice(
    start: int,
    end: int,
    *,
    expires: tuple[str, ...] = ("2026-10-21T00",),
    gaps: tuple[Gap, ...] = (),
    topic: str = "runs",
    partition: int = 0,
) -> MaskedSlice:
    """Offsets `[start, end)` dealt out in turn to one bucket each."""
    header = SliceHeader(
        topic=topic,
        topic_id="topic-id",
        partition=partition,
        start=start,
        end=end,
        now_us=NOW_US,
        ruleset=DIGEST,
        policy=DIGEST,
        key_id="k1",
        counts={"messages": end - start, "events": end - start},
        gaps=gaps,
    )
    parts = tuple(
        Part("events", "default", bucket, rows(offsets, topic=topic, partition=partition))
        for index, bucket in enumerate(expires)
        if (offsets := range(start + index, end, len(expires)))
    )
    return MaskedSlice(header, parts)
