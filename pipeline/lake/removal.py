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

import pyarrow as pa

from pipeline.lake.contents import INDEX, BucketReader, Contents, Flags, Keep, LiveFile, gone_of
from pipeline.lake.entries import FileEntry
from pipeline.lake.layout import Bucket
from pipeline.lake.parquet import join_rows, sealed_under
from pipeline.lake.provenance import Origins
from pipeline.lake.rewriting import BucketLog, Claim, delete_all
from pipeline.lake.store import Store
from pipeline.lake.writer import NewFile, key_folder, publish_files

__all__ = ["Flags", "Going", "Keep", "KeepIn", "Note", "Remover"]

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
        self.keep_in, self._note, self._with_strays = keep_in, note, with_strays
        self._reader = BucketReader(store)

    def preview(self, bucket: Bucket, columns: Sequence[str] | None = None) -> Going:
        """What `remove` would remove now; changes nothing.

        `columns` are those that `keep_in` looks at (None: any).
        """
        log = BucketLog(self._store, bucket)
        names = None if columns is None else list(dict.fromkeys((*INDEX, *columns)))
        return self._going(log, log.last_number() + 1, self._read(log, columns=names))

    def remove(self, bucket: Bucket) -> Going:
        """Steps 1 to 6; what has gone.

        Raises `LostPartition` if another rewriter works here, `LakeError` if the store fails: then
        something may be left (`standing`), and doing it again is right.
        """
        log = BucketLog(self._store, bucket)
        if not self._has_news(log):
            nothing = Contents([], [], self.standing(bucket))
            return self._finish_removal(self._going(log, log.last_number(), nothing))
        # 1
        claim = log.claim(self._purpose, self._claim, self._now_us)
        # 2
        found = self._read(log, call_off=self._claim if self._with_strays else "")
        going = self._going(log, claim.intent.number, found)
        # 3
        if going.files or going.strays:
            self._note(going)
        # 4, 5, 6
        shrinking = [file for file in found.files if file.entry in going.files]
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
        gone = gone_of(BucketLog(self._store, bucket).rewrites())
        return tuple(sorted(i.key for i in self._store.walk(bucket.folder) if i.key in gone))

    def _has_news(self, log: BucketLog) -> bool:
        gone = gone_of(log.rewrites())
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

        In a bucket that has ended, whatever else is kept belongs to files that never came to be.
        """
        doomed = {file.sealed.rpartition("/")[2] for file in removed if file.sealed}
        if not doomed:
            return
        keys, folder = self._store.bucket_keys, key_folder(self._store, bucket)
        if self._with_strays:
            kept = keys.names(folder)
            gone = gone_of(BucketLog(self._store, bucket).rewrites())
            staying = {item.key for item in self._store.walk(bucket.folder)} - gone
            references = (sealed_under(self._store.get(key)) for key in staying)
            doomed |= set(kept) - {reference.rpartition("/")[2] for reference in references}
        keys.destroy(folder, doomed, is_closing=self._with_strays)

    def _going(self, log: BucketLog, number: int, found: Contents) -> Going:
        files = found.files
        shrinking = [file for file in files if file.rows is None or not file.kept.all()]
        rows = [file.rows_where(~file.kept) for file in shrinking if file.rows is not None]
        index = [table.select([n for n in INDEX if n in table.column_names]) for table in rows]
        return Going(
            log.bucket,
            number,
            tuple(file.entry for file in shrinking),
            tuple(found.strays),
            pa.concat_tables(index, promote_options="default") if index else pa.table({}),
            sum(file.entry.rows for file in files if file.rows is None),
            sum(int(file.kept.sum()) for file in files),
            found.standing,
        )

    def _read(
        self, log: BucketLog, *, columns: Sequence[str] | None = None, call_off: str = ""
    ) -> Contents:
        keep, strays = self.keep_in(log.bucket), self._with_strays
        return self._reader.read(log, keep, columns=columns, with_strays=strays, call_off=call_off)

    def _publish_kept(
        self, bucket: Bucket, claim: Claim, files: list[LiveFile]
    ) -> tuple[tuple[FileEntry, ...], dict[str, Origins]]:
        """Step 4; the file that was added, if any row stays, with its origins."""
        staying = [file for file in files if file.kept.any()]
        if not staying:
            return (), {}
        origins: Counter[str] = Counter()
        for file in staying:
            origins.update(file.origins_where(file.kept))
        rows = join_rows([file.rows_where(file.kept) for file in staying])
        new = NewFile.rewritten(claim.intent, rows, bucket)
        return publish_files(self._store, [new]), {new.key: dict(origins)}
