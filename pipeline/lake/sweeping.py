"""Tidying a lake: merging the small files of a bucket, finding files that belong to nothing."""

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

from pipeline.lake.entries import FileEntry, Rewrite
from pipeline.lake.layout import Bucket, parse_bucket, parse_rewritten
from pipeline.lake.live import Lake, read_lake
from pipeline.lake.parquet import from_parquet, join_rows
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import Store
from pipeline.lake.writer import NewFile, publish_files

MERGED_BYTES = 128 << 20
"""Size of a merged file, about: one at a time is made in memory.  Files of half of it stay."""

ABANDONED_US = 6 * 3_600_000_000
"""Age from which an unfinished rewrite counts as given up."""


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Who rewrites, and when: `claim` is a random id, `now_us` one clock reading (epoch µs)."""

    store: Store
    claim: str
    now_us: int

    def compact(self, bucket: Bucket) -> tuple[Rewrite, ...]:
        """Replaces the small live files of a bucket by one with the same rows, or by several."""
        done = [self._merge(bucket)]
        while len(_to_merge(read_lake(self.store), bucket)) > 1:
            done.append(self._merge(bucket))
        return tuple(done)

    def _merge(self, bucket: Bucket) -> Rewrite:
        log = BucketLog(self.store, bucket)
        claim = log.claim("compact", self.claim, self.now_us)
        live = _to_merge(read_lake(self.store), bucket)
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
    """The buckets with at least `files` small live files, sorted."""
    crowd = Counter(
        parse_bucket(file.path)
        for table_files in lake.files.values()
        for file in table_files
        if _is_small(file)
    )
    return tuple(
        sorted(bucket for bucket, count in crowd.items() if bucket is not None and count >= files)
    )


def _to_merge(lake: Lake, bucket: Bucket) -> list[FileEntry]:
    """The first small live files of a bucket, as many as make one."""
    live = [file for file in lake.files[bucket.table] if parse_bucket(file.path) == bucket]
    small = list(filter(_is_small, live))
    sizes = accumulate(file.size_bytes for file in small)
    return [file for file, size in zip(small, sizes, strict=True) if size <= MERGED_BYTES]


def _is_small(file: FileEntry) -> bool:
    return file.size_bytes < MERGED_BYTES // 2
