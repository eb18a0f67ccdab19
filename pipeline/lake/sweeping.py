"""Removing buckets whose time has come, and merging the small files of those that stay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.lake.entries import FileEntry, Rewrite
from pipeline.lake.layout import TMP, Bucket, parse_bucket, parse_rewritten
from pipeline.lake.live import Lake, read_lake
from pipeline.lake.parquet import count_rows, from_parquet
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import Store
from pipeline.lake.writer import NewFile, file_entry, publish_files

ABANDONED_US = 6 * 3_600_000_000
"""Age from which an unfinished rewrite counts as given up."""


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Who rewrites, and when: `claim` is a random id, `now_us` one clock reading (epoch µs)."""

    store: Store
    claim: str
    now_us: int

    def sweep(self, buckets: Sequence[Bucket]) -> tuple[Rewrite, ...]:
        """Removes every file of buckets that have ended; raises `LostPartition` if another does.

        Files of slices that are still being written go too: their commits will name files that
        are removed already.
        """
        claims = [
            (log := BucketLog(self.store, bucket), log.claim("sweep", self.claim, self.now_us))
            for bucket in buckets
            if bucket.starts_us <= self.now_us
        ]
        lake = read_lake(self.store)
        return tuple(
            log.finish(claim, [*_live_in(lake, log.bucket), *_pending_in(lake, log.bucket)], [])
            for log, claim in claims
        )

    def compact(self, bucket: Bucket) -> Rewrite:
        """Replaces the live files of a bucket by one with the same rows."""
        log = BucketLog(self.store, bucket)
        claim = log.claim("compact", self.claim, self.now_us)
        live = _live_in(read_lake(self.store), bucket)
        if len(live) < 2:
            return log.finish(claim, [], [])
        rows = pa.concat_tables(
            [from_parquet(self.store.get(file.path)) for file in live], promote_options="default"
        )
        number = claim.intent.number
        merged = NewFile(
            f"{TMP}/{self.claim}/rewrite/{bucket.folder.replace('/', '-')}-{number:012}",
            bucket.rewritten_key(number, 0),
            bucket.table,
            rows,
        )
        return log.finish(claim, live, publish_files(self.store, [merged]))

    def remove_strays(self) -> tuple[str, ...]:
        """Deletes the files that are not part of the lake and never will be."""
        outside = self.find_strays()
        for key in outside:
            self.store.delete(key)
        return outside

    def find_strays(self) -> tuple[str, ...]:
        """The files that are not part of the lake and never will be.

        Rewrites that were begun long ago and never finished are closed first.
        """
        for key in read_lake(self.store).strays().pending:
            if (rewritten := parse_rewritten(key)) is not None:
                log = BucketLog(self.store, rewritten[0])
                log.close_left(self.claim, before_us=self.now_us - ABANDONED_US)
        return read_lake(self.store).strays().outside


def buckets_of(lake: Lake) -> tuple[Bucket, ...]:
    """Every bucket that has a file, live or not, sorted."""
    keys = {file.path for files in lake.files.values() for file in files} | set(
        lake.strays().pending
    )
    return tuple(sorted({bucket for key in keys if (bucket := parse_bucket(key)) is not None}))


def _live_in(lake: Lake, bucket: Bucket) -> list[FileEntry]:
    return [file for file in lake.files[bucket.table] if parse_bucket(file.path) == bucket]


def _pending_in(lake: Lake, bucket: Bucket) -> Iterable[FileEntry]:
    for key in lake.strays().pending:
        if parse_bucket(key) == bucket and (data := lake.store.get_or_none(key)) is not None:
            yield file_entry(key, bucket.table, count_rows(data), data)
