"""Tidying a lake: merging the small files of a bucket, finding files that belong to nothing."""

from collections import Counter
from dataclasses import dataclass

from pipeline.lake.entries import FileEntry, Rewrite
from pipeline.lake.layout import Bucket, parse_bucket, parse_rewritten
from pipeline.lake.live import Lake, read_lake
from pipeline.lake.parquet import from_parquet, join_rows
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import Store
from pipeline.lake.writer import NewFile, publish_files

ABANDONED_US = 6 * 3_600_000_000
"""Age from which an unfinished rewrite counts as given up."""


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Who rewrites, and when: `claim` is a random id, `now_us` one clock reading (epoch µs)."""

    store: Store
    claim: str
    now_us: int

    def compact(self, bucket: Bucket) -> Rewrite:
        """Replaces the live files of a bucket by one with the same rows."""
        log = BucketLog(self.store, bucket)
        claim = log.claim("compact", self.claim, self.now_us)
        live = _live_in(read_lake(self.store), bucket)
        if len(live) < 2:
            return log.finish(claim, [], [])
        rows = join_rows(
            [from_parquet(self.store.get(file.path), keys=self.store.bucket_keys) for file in live]
        )
        merged = NewFile.rewritten(claim.intent, rows, bucket)
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


def crowded_buckets(lake: Lake, files: int) -> tuple[Bucket, ...]:
    """The buckets with at least `files` live files, sorted."""
    crowd = Counter(
        parse_bucket(file.path) for table_files in lake.files.values() for file in table_files
    )
    return tuple(
        sorted(bucket for bucket, count in crowd.items() if bucket is not None and count >= files)
    )


def _live_in(lake: Lake, bucket: Bucket) -> list[FileEntry]:
    return [file for file in lake.files[bucket.table] if parse_bucket(file.path) == bucket]
