"""The files of one slice: written aside, flushed, checked, published, read back.

Steps 3 and 4 of the commit protocol; `commits.py` has the others.
"""

import hashlib

from pipeline.errors import LakeError, LogError
from pipeline.faultpoints import at
from pipeline.lake import layout
from pipeline.lake.entries import FileEntry
from pipeline.lake.parquet import count_rows, from_parquet, to_parquet
from pipeline.lake.store import Store, taken_over
from pipeline.slices import Part, SliceHeader


def write_parts(
    store: Store, parts: tuple[Part, ...], header: SliceHeader, number: int, claim: str
) -> tuple[FileEntry, ...]:
    """Steps 3 and 4 for every part of slice `number`: its published files, sorted by path.

    3. Write to `_tmp/<claim>/`, flush files and folder, check rows and digest of what lies there.
    4. Publish without replacing, flush the folder, open it again and check.
    """
    entries = []
    tmp_keys = []
    # 3
    for part in parts:
        bucket = layout.Bucket(part.table, part.retention_class, part.expires)
        file = layout.DataFile(bucket, header.topic, header.partition, number)
        data = to_parquet(part.rows)
        at("tmp-write.before")
        store.put_tmp(file.tmp_key(claim), data)
        at("tmp-write.after")
        tmp_keys.append(file.tmp_key(claim))
        entries.append(_file_entry(file, part.rows.num_rows, data))
    store.make_durable(tmp_keys)
    at("flush.after")
    # 4
    for tmp_key, ours in zip(tmp_keys, entries, strict=True):
        _check(store.get_or_none(tmp_key), ours)
        at("publish.before")
        store.publish(tmp_key, ours.path)
        at("publish.after")
    store.make_durable([entry.path for entry in entries])
    published = [
        _open_published(store, ours, part) for ours, part in zip(entries, parts, strict=True)
    ]
    for tmp_key in tmp_keys:
        store.delete(tmp_key)
    return tuple(sorted(published, key=lambda entry: entry.path))


def _file_entry(file: layout.DataFile, rows: int, data: bytes) -> FileEntry:
    return FileEntry(file.key, file.bucket.table, rows, len(data), hashlib.sha256(data).hexdigest())


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


def _open_published(store: Store, ours: FileEntry, part: Part) -> FileEntry:
    """The file that stands under the name: ours, or an earlier writer's with the same rows."""
    data = store.get(ours.path)
    if hashlib.sha256(data).hexdigest() == ours.sha256:
        return ours
    theirs = from_parquet(data)
    if not theirs.equals(from_parquet(to_parquet(part.rows))):
        raise LogError(
            f"{ours.path} was published before with other rows",
            code="conflicting-file",
            hint="`redactory log supersede` gives the slice a new number",
        )
    return FileEntry(ours.path, ours.table, ours.rows, len(data), hashlib.sha256(data).hexdigest())
