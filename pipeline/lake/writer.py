"""Files for the lake: written aside, flushed, checked, published, read back.

Steps 3 and 4 of the commit protocol; `commits.py` has the others.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pipeline.errors import LakeError
from pipeline.faultpoints import at
from pipeline.lake import layout
from pipeline.lake.entries import FileEntry, RewriteIntent
from pipeline.lake.keystore import KeyStore
from pipeline.lake.parquet import (
    count_rows,
    from_parquet,
    is_to_be_sealed,
    sealed_under,
    to_parquet,
)
from pipeline.lake.sealing import Seal
from pipeline.lake.store import Store, taken_over
from pipeline.slices import Part, SliceHeader, Table

_KEEPERS = 4


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be: where it is written, where it goes, and its rows."""

    tmp_key: str
    key: str
    table: Table
    rows: pa.Table

    @classmethod
    def rewritten(
        cls, claim: RewriteIntent, rows: pa.Table, target: layout.Bucket, index: int = 0
    ) -> "NewFile":
        """The `index`-th file that a rewriter makes of the rows of the bucket it has claimed; it
        stands in `target`, that bucket or another one."""
        source = layout.Bucket(claim.table, claim.retention_class, claim.expires)
        if target == source:
            key = target.rewritten_key(claim.number, index)
        else:
            key = target.moved_key(source, claim.number, index)
        tmp_key = f"{layout.TMP}/{claim.claim}/rewrite/{key.replace('/', '-')}"
        return cls(tmp_key, key, target.table, rows)


def files_of(
    parts: Sequence[Part], header: SliceHeader, number: int, claim: str
) -> tuple[NewFile, ...]:
    """The files of slice `number`, one for each part."""
    buckets = [layout.Bucket(part.table, part.retention_class, part.expires) for part in parts]
    files = [layout.DataFile(b, header.topic, header.partition, number) for b in buckets]
    return tuple(
        NewFile(file.tmp_key(claim), file.key, part.table, part.rows)
        for file, part in zip(files, parts, strict=True)
    )


def publish_files(
    store: Store, files: Sequence[NewFile], check: Callable[[], None] = lambda: None
) -> tuple[FileEntry, ...]:
    """Steps 3 and 4: the published files, sorted by path.

    3. Write to `_tmp/<claim>/`, flush files and folders; `check` raises if they came too late.
    4. Check rows and digest of what lies there, publish without replacing, flush the folders, open
       each again and check.
    """
    # 3
    seals = [_seal_of(store, file) for file in files]
    written = [_write_aside(store, file, seal) for file, seal in zip(files, seals, strict=True)]
    at("flush.before")
    with _kept([seal for seal in seals if seal is not None]):
        store.make_durable([file.tmp_key for file in files])
    at("flush.after")
    check()
    # 4
    for file, entry in zip(files, written, strict=True):
        _check(store.get_or_none(file.tmp_key), entry)
        at("publish.before")
        store.publish(file.tmp_key, file.key)
        at("publish.after")
    store.make_durable([file.key for file in files])
    published = [
        _open_published(store, entry, file) for file, entry in zip(files, written, strict=True)
    ]
    at("tidy.before")
    for file in files:
        store.delete(file.tmp_key)
    at("tidy.after")
    return tuple(sorted(published, key=lambda entry: entry.path))


@contextmanager
def _kept(seals: Sequence[Seal]) -> Iterator[None]:
    """Keeps keys while the caller flushes the files; both are durable when this ends."""
    if not seals:
        yield
        return
    with ThreadPoolExecutor(min(len(seals), _KEEPERS)) as pool:
        jobs = [pool.submit(seal.keep) for seal in seals]
        yield
        for job in jobs:
            job.result()


def _write_aside(store: Store, file: NewFile, seal: Seal | None) -> FileEntry:
    data = to_parquet(file.rows, seal)
    at("tmp-write.before")
    store.put_tmp(file.tmp_key, data)
    at("tmp-write.after")
    return file_entry(file.key, file.table, file.rows.num_rows, data)


def _seal_of(store: Store, file: NewFile) -> Seal | None:
    """What a file is sealed with; None if its rows are not to be sealed."""
    bucket = layout.parse_bucket(file.key)
    if bucket is None or not is_to_be_sealed(file.rows):
        return None
    return Seal(store.bucket_keys, key_folder(store, bucket))


def key_folder(store: Store, bucket: layout.Bucket) -> str:
    """Where the key store keeps a bucket's keys: no two lakes share a folder."""
    if (identity := store.get_or_none(layout.IDENTITY)) is None:
        store.put_if_absent(layout.IDENTITY, layout.new_claim().encode())
        identity = store.get(layout.IDENTITY)
    return f"{identity.decode()}/{bucket.retention_class}/{bucket.table}/{bucket.expires}"


def destroy_keys(store: Store, bucket: layout.Bucket, removed: Iterable[FileEntry]) -> None:
    """Destroys the keys of sealed files of a bucket, and with them every copy of the files."""
    doomed = {entry.sealed.rpartition("/")[2] for entry in removed if entry.sealed}
    if doomed:
        store.bucket_keys.destroy(key_folder(store, bucket), doomed)


def file_entry(key: str, table: Table, rows: int, data: bytes) -> FileEntry:
    """What a commit says about a file with these bytes."""
    digest = hashlib.sha256(data).hexdigest()
    return FileEntry(key, table, rows, len(data), digest, sealed_under(data))


def _check(data: bytes | None, expected: FileEntry) -> None:
    """The bytes are those that were written, and hold the rows that were meant."""
    if data is None:
        raise taken_over()
    if hashlib.sha256(data).hexdigest() != expected.sha256 or count_rows(data) != expected.rows:
        raise LakeError(
            f"{expected.path} does not read as it was written",
            code="corrupt",
            hint="the disk or store is failing; nothing was committed",
        )


def _open_published(store: Store, ours: FileEntry, file: NewFile) -> FileEntry:
    """The file that stands under the name: ours, or an earlier writer's with the same rows."""
    data = store.get(ours.path)
    if hashlib.sha256(data).hexdigest() == ours.sha256:
        return ours
    if not _holds_same_rows(data, file, store.bucket_keys):
        # Another writer of the same intent saw more or fewer records of a topic that loses some;
        # a redo takes its rows over.
        raise LakeError(
            f"{ours.path} was published before with other rows",
            code="conflicting-file",
            hint="start again; if it stays so, `redactory log supersede` gives it a new number",
        )
    return file_entry(ours.path, ours.table, ours.rows, data)


def _holds_same_rows(data: bytes, file: NewFile, keys: KeyStore) -> bool:
    """Whether a published file has our rows, though its writer's version encoded them otherwise or
    did not know the newest columns yet."""
    try:
        theirs = from_parquet(data, keys=keys)
    except (pa.ArrowException, OSError):
        return False
    ours = from_parquet(to_parquet(file.rows))
    known = [name for name in ours.column_names if name in theirs.column_names]
    return bool(theirs.equals(ours.select(known)))
