"""What lies in the lake that has ended: listed by folder, read only where it is due."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from pipeline.lake import layout
from pipeline.lake.layout import Bucket
from pipeline.lake.removal import Going, Remover
from pipeline.lake.store import Store
from pipeline.retention.copies import read_copies
from pipeline.retention.holds import COLUMNS, Holds
from pipeline.retention.plan import BucketFacts, Facts, UnfinishedFile
from pipeline.retention.policy import bucket_name

_HIVE: Final = re.compile(
    r"(?P<table>[^/]+)/retention_class=(?P<name>[^/]+)/expires=(?P<expires>[^/]+)"
)
_EXPIRES: Final = re.compile(r"expires=(\d{4}-\d{2}-\d{2}T\d{2})")


def ended_buckets(store: Store, now_us: int) -> Iterator[Bucket]:
    """The buckets that have ended and have a folder, by the folders' names alone."""
    now = bucket_name(now_us)
    for table in layout.TABLES:
        for folder in (sub for above in store.folders(table) for sub in store.folders(above)):
            found = _HIVE.fullmatch(folder)
            if found and found["expires"] <= now:
                bucket = Bucket(table, found["name"], found["expires"])
                if bucket.is_valid:
                    yield bucket


def unfinished_files(store: Store, now_us: int) -> Iterator[UnfinishedFile]:
    """The files below `_tmp/` whose name says that they hold rows of a bucket that has ended."""
    for item in store.walk(layout.TMP):
        found = _EXPIRES.search(item.key)
        if found and layout.is_expires(found[1]):
            start = datetime.strptime(found[1], "%Y-%m-%dT%H").replace(tzinfo=UTC)
            expires_us = int(start.timestamp()) * 1_000_000
            if expires_us <= now_us:
                yield UnfinishedFile(item.key, item.size_bytes, expires_us)


def survey(store: Store, now_us: int, holds: Holds) -> Facts:
    """Everything that has ended at `now_us`, with what holds keep of it."""
    looking = Remover(
        store,
        purpose="sweep",
        claim="",
        now_us=now_us,
        keep_in=holds.keep_in,
        note=lambda going: None,
        with_strays=True,
    )
    buckets = tuple(
        _facts(looking.preview(bucket, COLUMNS)) for bucket in ended_buckets(store, now_us)
    )
    return Facts(buckets, tuple(unfinished_files(store, now_us)), holds.active, read_copies(store))


def _facts(going: Going) -> BucketFacts:
    runs = frozenset[str]()
    if "run_id" in going.rows.column_names:
        runs = frozenset(filter(None, going.rows["run_id"].unique().to_pylist()))
    return BucketFacts(
        going.bucket,
        len(going.files),
        len(going.strays) + len(going.came_back),
        sum(file.size_bytes for file in (*going.files, *going.strays)),
        going.rows.num_rows + going.unread,
        going.kept,
        runs,
    )
