"""Removing rows of one bucket for good: all of them, or all but those that somebody keeps.

1. Claim the bucket: no other rewriter changes it from here on.
2. List and read it.
3. Let the caller note what goes, before anything is gone.
4. Publish the rows that stay in a file of their own.
5. Commit the rewrite: what it removes is no part of the lake any more.
6. Destroy the keys of sealed files that go, delete, and list again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import LakeError
from pipeline.lake.entries import FileEntry, Rewrite
from pipeline.lake.layout import TMP, Bucket
from pipeline.lake.lookup import CommittedFiles
from pipeline.lake.parquet import from_parquet, join_rows, sealed_under
from pipeline.lake.provenance import Origins, kept_origins, origins_of, trace_origins
from pipeline.lake.rewriting import BucketLog, Claim, delete_all
from pipeline.lake.sealing import KeyStore
from pipeline.lake.store import VERIFY_HINT, Store
from pipeline.lake.writer import NewFile, file_entry, key_folder, publish_files

Flags = NDArray[np.bool_]

Keep = Callable[[pa.Table], Flags]
"""Says which rows of a file stay; the table has every column."""

KeepIn = Callable[[Bucket], Keep | None]
"""What stays of a bucket; None: nothing can."""

Note = Callable[["Going"], None]
"""Writes down what is about to go."""


@dataclass(frozen=True, slots=True)
class Going:
    """What rewrite `number` is about to remove from a bucket.

    `files` are live ones that go or shrink, `strays` other files that go.  `rows` are the rows that
    go, with those of `INDEX` that their table has; `unread` counts rows of files that cannot be
    read any more, `kept` the rows that stay in the bucket.  `came_back` are files that were
    removed before: left by a crash, or by a writer that was late.
    """

    bucket: Bucket
    number: int
    files: tuple[FileEntry, ...]
    strays: tuple[FileEntry, ...]
    rows: pa.Table
    unread: int
    kept: int
    came_back: tuple[str, ...]


INDEX = ("run_id", "kafka_topic", "kafka_partition", "kafka_offset")
"""The columns that say which rows they are."""


@dataclass(frozen=True, slots=True)
class _File:
    """A live file with its rows (None: unreadable) and which of them stay."""

    entry: FileEntry
    origins: Origins
    rows: pa.Table | None
    kept: Flags

    def rows_where(self, kept: bool) -> pa.Table:
        assert self.rows is not None
        return self.rows.filter(pa.array(self.kept == kept))


class Remover:
    """Removes rows as one rewriter: `claim` is a random id, `now_us` one clock reading (epoch µs).

    `with_strays`: files that are not part of the lake go too; right only for a bucket that has
    ended, since they may belong to a slice that is being written.
    """

    def __init__(
        self,
        store: Store,
        *,
        purpose: str,
        claim: str,
        now_us: int,
        keep_in: KeepIn,
        note: Note,
        with_strays: bool,
    ) -> None:
        self._store, self._purpose, self._claim, self._now_us = store, purpose, claim, now_us
        self._keep_in, self._note, self._with_strays = keep_in, note, with_strays
        self._committed = CommittedFiles(store)

    def preview(self, bucket: Bucket) -> Going:
        """What `remove` would remove now; changes nothing."""
        log = BucketLog(self._store, bucket)
        return self._going(log, log.last_number() + 1, self._read(log))

    def remove(self, bucket: Bucket) -> Going:
        """Steps 1 to 6; what has gone.

        Raises `LostPartition` if another rewriter works here, `LakeError` if the store fails: then
        something may be left (`standing`), and doing it again is right.
        """
        log = BucketLog(self._store, bucket)
        if not self._has_news(log):
            return self._finish_removal(self._going(log, log.last_number(), ([], [])))
        # 1
        claim = log.claim(self._purpose, self._claim, self._now_us)
        # 2
        files, strays = self._read(log)
        going = self._going(log, claim.intent.number, (files, strays))
        # 3
        if going.files or going.strays:
            self._note(going)
        # 4, 5, 6
        shrinking = [file for file in files if file.entry in going.files]
        added, origins = self._publish_kept(bucket, claim, shrinking)
        log.finish(
            claim,
            [*going.files, *going.strays],
            added,
            origins,
            before_delete=lambda: self._shred(bucket, (*going.files, *going.strays)),
        )
        return self._finish_removal(going)

    def standing(self, bucket: Bucket) -> tuple[str, ...]:
        """The files that were removed from the bucket and stand there still."""
        gone = _gone(BucketLog(self._store, bucket).rewrites())
        return tuple(sorted(i.key for i in self._store.walk(bucket.folder) if i.key in gone))

    def _has_news(self, log: BucketLog) -> bool:
        gone = _gone(log.rewrites())
        return any(item.key not in gone for item in self._store.walk(log.bucket.folder))

    def _finish_removal(self, going: Going) -> Going:
        if going.came_back:
            gone = BucketLog(self._store, going.bucket).rewrites()
            self._shred(going.bucket, [file for rewrite in gone for file in rewrite.removed])
        delete_all(self._store, going.came_back)
        self._store.remove_empty(going.bucket.folder)
        return going

    def _shred(self, bucket: Bucket, removed: Iterable[FileEntry]) -> None:
        """Destroys the keys of removed files: copies of them, wherever they are, go with that.

        Whatever else is kept for the bucket belongs to files that never came to be.
        """
        if not any(file.sealed for file in removed):
            return
        gone = _gone(BucketLog(self._store, bucket).rewrites())
        staying = {item.key for item in self._store.walk(bucket.folder)} - gone
        references = (sealed_under(self._store.get(key)) for key in staying)
        keep = {reference.rpartition("/")[2] for reference in references}
        self._store.bucket_keys.destroy(key_folder(self._store, bucket), keep)

    def _going(
        self, log: BucketLog, number: int, found: tuple[list[_File], list[FileEntry]]
    ) -> Going:
        files, strays = found
        shrinking = [file for file in files if file.rows is None or not file.kept.all()]
        rows = [file.rows_where(False) for file in shrinking if file.rows is not None]
        index = [table.select([n for n in INDEX if n in table.column_names]) for table in rows]
        return Going(
            log.bucket,
            number,
            tuple(file.entry for file in shrinking),
            tuple(strays),
            pa.concat_tables(index, promote_options="default") if index else pa.table({}),
            sum(file.entry.rows for file in files if file.rows is None),
            sum(int(file.kept.sum()) for file in files),
            self.standing(log.bucket),
        )

    def _read(self, log: BucketLog) -> tuple[list[_File], list[FileEntry]]:
        """The live files of the bucket, and the others if they go too."""
        past = (*log.moves(), *log.rewrites())
        made = {file.path: file for rewrite in past for file in rewrite.added}
        gone, origins = _gone(past), trace_origins(past)
        keep = self._keep_in(log.bucket)
        files: list[_File] = []
        strays: list[FileEntry] = []
        found = {item.key for item in self._store.walk(log.bucket.folder)}
        for key in sorted(found - gone):
            entry = made.get(key) or self._committed.find(key)
            data = self._store.get_or_none(key)
            if data is None:
                continue  # its writer has just taken it back
            if entry is not None:
                files.append(self._examine(entry, origins_of(entry, origins), data, keep))
            elif self._with_strays:
                rows = _table_of(data, INDEX, None)
                count = 0 if rows is None else rows.num_rows
                strays.append(file_entry(key, log.bucket.table, count, data))
        return files, strays

    def _examine(self, entry: FileEntry, origins: Origins, data: bytes, keep: Keep | None) -> _File:
        rows = _table_of(data, INDEX if keep is None else None, self._store.bucket_keys)
        if rows is None:
            if keep is not None:
                raise LakeError(
                    f"{entry.path} cannot be read, and rows of it may have to be kept",
                    code="unreadable",
                    hint=VERIFY_HINT,
                )
            return _File(entry, origins, None, np.zeros(0, np.bool_))
        kept = np.zeros(rows.num_rows, np.bool_) if keep is None else keep(rows)
        return _File(entry, origins, rows, kept)

    def _publish_kept(
        self, bucket: Bucket, claim: Claim, files: list[_File]
    ) -> tuple[tuple[FileEntry, ...], dict[str, Origins]]:
        """Step 4; the file that was added, if any row stays, with its origins."""
        staying = [file for file in files if file.kept.any()]
        if not staying:
            return (), {}
        origins: Counter[str] = Counter()
        for file in staying:
            assert file.rows is not None
            origins.update(kept_origins(file.rows, file.kept, file.origins))
        number = claim.intent.number
        new = NewFile(
            f"{TMP}/{self._claim}/rewrite/{bucket.folder.replace('/', '-')}-{number:012}",
            bucket.rewritten_key(number, 0),
            bucket.table,
            join_rows([file.rows_where(True) for file in staying]),
        )
        return publish_files(self._store, [new]), {new.key: dict(origins)}


def _gone(rewrites: Iterable[Rewrite]) -> set[str]:
    return {file.path for rewrite in rewrites for file in rewrite.removed}


def _table_of(data: bytes, columns: Sequence[str] | None, keys: KeyStore | None) -> pa.Table | None:
    """The rows of a file, with those of the columns that it has; None if it is none."""
    try:
        return from_parquet(data, columns, keys)
    except (pa.ArrowException, OSError):
        return None
