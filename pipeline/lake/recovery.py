"""Redoing an intent after the topic lost records: what was published before still has them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

import pyarrow as pa

from pipeline.errors import LogError
from pipeline.lake import layout
from pipeline.lake.parquet import from_parquet, join_rows
from pipeline.lake.store import VERIFY_HINT, Store
from pipeline.slices import FURTHER, UNRECOVERED, Gap, MaskedSlice, Part, SliceHeader

LOST: Final = "lost-before-redo"


def with_recovered_rows(store: Store, masked: MaskedSlice, number: int) -> MaskedSlice:
    """The slice with the rows that files already published as `number` hold for its lost offsets.

    What nobody has any more stays a declared gap.  The counts grow by what was recovered.
    """
    lost = {
        offset
        for gap in masked.header.gaps
        if gap.reason == LOST
        for offset in range(gap.start, gap.end)
    }
    if not lost:
        return masked
    parts = {(part.table, part.retention_class, part.expires): part for part in masked.parts}
    recovered: list[Part] = []
    for found in _published(store, masked.header, number):
        keep = [offset in lost for offset in found.rows["kafka_offset"].to_pylist()]
        rows = found.rows.filter(pa.array(keep))
        if not rows.num_rows:
            continue
        recovered.append(replace(found, rows=rows))
        place = found.table, found.retention_class, found.expires
        ours = parts.get(place)
        merged = join_rows([ours.rows, rows]) if ours else rows
        parts[place] = replace(found, rows=merged)
    every = tuple(parts[at] for at in sorted(parts))
    return replace(masked, header=_recount(masked.header, recovered), parts=every)


def _published(store: Store, header: SliceHeader, number: int) -> Iterator[Part]:
    """What was read from the topic and lies under the slice's number, whoever wrote it.

    Run records are not read but made: they follow from the events.
    """
    tables = (table for table in layout.TABLES if table != "runs")
    for item in (item for table in tables for item in store.walk(table)):
        file = layout.parse_data_file(item.key)
        if file is None or (file.topic, file.partition, file.number) != (
            header.topic,
            header.partition,
            number,
        ):
            continue
        try:
            rows = from_parquet(store.get(item.key), keys=store.bucket_keys)
        except (pa.ArrowException, OSError) as error:
            raise LogError(
                f"{item.key} is no valid file", code="file-unreadable", hint=VERIFY_HINT
            ) from error
        bucket = file.bucket
        yield Part(bucket.table, bucket.retention_class, bucket.expires, rows)


def _recount(header: SliceHeader, recovered: list[Part]) -> SliceHeader:
    counts = Counter(header.counts)
    redactions = Counter(header.redactions)
    codes = Counter(header.dead_letter_codes)
    found: Counter[int] = Counter()
    held: Counter[int] = Counter()
    for part in recovered:
        counts[part.table] += part.rows.num_rows
        for row in part.rows.to_pylist():
            found[row["kafka_offset"]] += 1
            held[row["kafka_offset"]] = row.get("record_events") or 1
            redactions.update(redaction["rule"] for redaction in row.get("redactions") or ())
            codes.update([row["code"]] if "code" in row else [])
    counts["messages"] += len(found)
    # Of a record the files of some buckets may have been published, and those of others not.
    beyond = {FURTHER: held.total() - len(held), UNRECOVERED: held.total() - found.total()}
    counts.update({name: count for name, count in beyond.items() if count})
    gaps = tuple(rest for gap in header.gaps for rest in _without(gap, set(found)))
    return replace(
        header,
        counts=dict(counts),
        redactions=dict(sorted(redactions.items())),
        dead_letter_codes=dict(sorted(codes.items())),
        gaps=gaps,
    )


def _without(gap: Gap, offsets: set[int]) -> Iterator[Gap]:
    """What is left of a gap after some offsets were found."""
    if gap.reason != LOST:
        yield gap
        return
    left = [offset for offset in range(gap.start, gap.end) if offset not in offsets]
    # Offsets of one run differ from their index by the same number.
    for _, run in groupby(enumerate(left), key=lambda pair: pair[1] - pair[0]):
        members = [offset for _, offset in run]
        yield Gap(members[0], members[-1] + 1, gap.reason)
