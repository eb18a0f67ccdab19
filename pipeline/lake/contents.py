"""What lies in one bucket: its live files with their rows, and files that are no part of the lake.

For a rewriter that has claimed the bucket: from then on writers only add to it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import LakeError
from pipeline.lake.entries import FileEntry, Rewrite
from pipeline.lake.keystore import KeyStore
from pipeline.lake.layout import parse_rewritten
from pipeline.lake.lookup import CommittedFiles
from pipeline.lake.parquet import from_parquet
from pipeline.lake.provenance import Origins, kept_origins, origins_of, trace_origins
from pipeline.lake.rewriting import BucketLog
from pipeline.lake.store import VERIFY_HINT, Store
from pipeline.lake.writer import file_entry

Flags = NDArray[np.bool_]

Keep = Callable[[pa.Table], Flags]
"""Says which rows of a file stay; the table has every column."""

INDEX = ("run_id", "kafka_topic", "kafka_partition", "kafka_offset")
"""The columns that say which rows they are."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live file with its rows (None: unreadable) and which of them stay."""

    entry: FileEntry
    origins: Origins
    rows: pa.Table | None
    kept: Flags

    def rows_where(self, chosen: Flags) -> pa.Table:
        """The rows at which `chosen` is set."""
        assert self.rows is not None
        return self.rows.filter(pa.array(chosen))

    def origins_where(self, chosen: Flags) -> Origins:
        """Which slices wrote those rows, and how many each."""
        assert self.rows is not None
        return kept_origins(self.rows, chosen, self.origins)


class Contents(NamedTuple):
    """`files` are live, `strays` are no part of the lake, `standing` was removed and is there."""

    files: list[LiveFile]
    strays: list[FileEntry]
    standing: tuple[str, ...]


class BucketReader:
    """Reads buckets of a lake as their logs and those of the partitions stand."""

    def __init__(self, store: Store) -> None:
        self._store, self._committed = store, CommittedFiles(store)

    def read(
        self,
        log: BucketLog,
        keep: Keep | None,
        *,
        columns: Sequence[str] | None = None,
        with_strays: bool = False,
        call_off: str = "",
    ) -> "Contents":
        """The live files of the bucket, the others if they are asked for, and what came back.

        Without `keep` nothing stays and only the columns of `INDEX` are read; with it, all of them
        or those of `columns`, and a file that cannot be read is a `LakeError`.  A file that another
        bucket's rewriter is about to add is one of the others: who removes them says with
        `call_off`, a claim, that it must not be added any more.
        """
        past = log.rewrites()
        gone = gone_of(past)
        found = {item.key for item in self._store.walk(log.bucket.folder)}
        made, origins = self._made(log, past, found, call_off)
        files: list[LiveFile] = []
        strays: list[FileEntry] = []
        for key in sorted(found - gone):
            entry = made.get(key) or self._committed.find(key)
            if entry is None and not with_strays:
                continue
            data = self._store.get_or_none(key)
            if data is None:
                continue  # its writer has just taken it back
            if entry is not None:
                names = INDEX if keep is None else columns
                files.append(self._examine(entry, origins_of(entry, origins), data, keep, names))
            else:
                rows = _table_of(data, INDEX, None)
                count = 0 if rows is None else rows.num_rows
                strays.append(file_entry(key, log.bucket.table, count, data))
        return Contents(files, strays, tuple(sorted(found & gone)))

    def _made(
        self, log: BucketLog, past: Sequence[Rewrite], found: Iterable[str], call_off: str
    ) -> tuple[dict[str, FileEntry], dict[str, Origins]]:
        """What rewrites made of the bucket's files, with the origins of each, also those of other
        buckets that moved rows here."""
        moves: list[Rewrite] = []
        for key in sorted({*found, *gone_of(past)}):
            if (maker := parse_rewritten(key)) and maker[0] != log.bucket:
                source = BucketLog(self._store, maker[0])
                if call_off and source.last_number() < maker[1]:
                    source.close_left(call_off)
                move = source.rewrite_at(maker[1])
                moves += [move] if move is not None else []
        made = {file.path: file for rewrite in (*moves, *past) for file in rewrite.added}
        known = {path: origins for move in moves for path, origins in move.origins.items()}
        return made, trace_origins(past, known)

    def _examine(
        self,
        entry: FileEntry,
        origins: Origins,
        data: bytes,
        keep: Keep | None,
        columns: Sequence[str] | None,
    ) -> LiveFile:
        rows = _table_of(data, columns, self._store.bucket_keys)
        if rows is None:
            if keep is not None:
                raise LakeError(
                    f"{entry.path} cannot be read, and rows of it may have to be kept",
                    code="unreadable",
                    hint=VERIFY_HINT,
                )
            return LiveFile(entry, origins, None, np.zeros(0, np.bool_))
        kept = np.zeros(rows.num_rows, np.bool_) if keep is None else keep(rows)
        return LiveFile(entry, origins, rows, kept)


def gone_of(rewrites: Iterable[Rewrite]) -> set[str]:
    """The paths of the files that rewrites removed."""
    return {file.path for rewrite in rewrites for file in rewrite.removed}


def _table_of(data: bytes, columns: Sequence[str] | None, keys: KeyStore | None) -> pa.Table | None:
    """The rows of a file, with those of the columns that it has; None if it is none."""
    try:
        return from_parquet(data, columns, keys)
    except (pa.ArrowException, OSError):
        return None
