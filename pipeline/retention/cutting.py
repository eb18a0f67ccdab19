"""Summing up the rewrites of buckets of which nothing is left: their log does not grow for ever.

A bucket's entries say what became of its files; once it has ended, nothing stands in it and no log
or checkpoint names a file of it, they are needed no more.  Buckets between which rows were moved go
together.  Tombstones and receipts stay.
"""

from collections import defaultdict
from collections.abc import Collection

from pipeline.lake.entries import Rewrite
from pipeline.lake.history import read_cuts, read_histories, read_rewrites
from pipeline.lake.layout import Bucket, parse_bucket, parse_rewritten
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import Store
from pipeline.retention.ledger import Ledger


def cut_rewrites(store: Store, now_us: int) -> int:
    """Sums up what can be; how many entries went.  None while a removal has not finished."""
    if Ledger(store, "").left_open() is not None:
        return 0  # its receipt is made from these entries
    named = {file.path for history in read_histories(store) for file in history.files()}
    by_bucket: dict[Bucket, list[Rewrite]] = defaultdict(list)
    for rewrite in read_rewrites(store):
        bucket = Bucket(rewrite.table, rewrite.retention_class, rewrite.expires)
        by_bucket[bucket].append(rewrite)
    paths = {bucket: _paths(rewrites) for bucket, rewrites in by_bucket.items()}
    over = {
        bucket
        for bucket in by_bucket
        if bucket.starts_us <= now_us
        and not paths[bucket] & named
        and next(iter(store.walk(bucket.folder)), None) is None
    }
    _without_ties(over, paths, read_cuts(store))
    return sum(
        BucketLog(store, bucket).cut_up_to(by_bucket[bucket][-1].number) for bucket in sorted(over)
    )


def _paths(rewrites: list[Rewrite]) -> set[str]:
    return {file.path for each in rewrites for file in (*each.removed, *each.added)}


def _without_ties(over: set[Bucket], paths: dict[Bucket, set[str]], cuts: Collection[str]) -> None:
    """Takes out the buckets whose rows came from or went to one that is not over."""
    ties: dict[Bucket, set[Bucket]] = {
        bucket: {tied for path in paths[bucket] for tied in _buckets_of(path)} for bucket in over
    }
    for bucket in over:
        ties[bucket] = {t for t in ties[bucket] if t in paths or t.log_folder not in cuts}
    while tied := {bucket for bucket in over if not ties[bucket] <= over}:
        over -= tied


def _buckets_of(path: str) -> set[Bucket]:
    """The bucket in which a file stands, and the one whose rewrite made it."""
    maker = parse_rewritten(path)
    return {each for each in (parse_bucket(path), maker and maker[0]) if each is not None}
