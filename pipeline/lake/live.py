"""The live set: the files that the log says are the lake, as a snapshot.

A file under a table that the log does not name (a late upload of a writer that lost its partition)
is not part of the lake, whoever lists the folder.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.lake import layout
from pipeline.lake.entries import FileEntry, Rewrite
from pipeline.lake.history import History, read_histories, read_rewrites
from pipeline.lake.layout import Bucket
from pipeline.lake.store import Store
from pipeline.slices import Table


@dataclass(frozen=True, slots=True)
class Strays:
    """Files in the table folders that are not live.

    `pending` belong to a slice that is being written; `outside` to nothing: the next sweep
    removes them.
    """

    pending: tuple[str, ...]
    outside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake at one moment; `files` are the live ones of each table, sorted by path."""

    store: Store
    histories: tuple[History, ...]
    rewrites: tuple[Rewrite, ...]
    files: Mapping[Table, tuple[FileEntry, ...]]

    def strays(self) -> Strays:
        """Lists the table folders and says what there is not live."""
        live = {file.path for files in self.files.values() for file in files}
        ends = {(h.topic, h.partition): h.position.next_number for h in self.histories}
        return find_strays(self.store, live, ends, self.rewrites)


def find_strays(
    store: Store,
    live: Collection[str],
    next_numbers: Mapping[tuple[str, int], int],
    rewrites: Iterable[Rewrite],
) -> Strays:
    """The files that are not live; `next_numbers` are those of each partition's next commit.

    Everything else must have been read from the log before: then a file that is about to be
    committed has a number that the log has not reached yet.
    """
    last_rewrites = {
        Bucket(rewrite.table, rewrite.retention_class, rewrite.expires): rewrite.number
        for rewrite in rewrites
    }
    pending: list[str] = []
    outside: list[str] = []
    for item in (item for table in layout.TABLES for item in store.walk(table)):
        if item.key in live:
            continue
        may_come = False
        if (file := layout.parse_data_file(item.key)) is not None:
            may_come = file.number >= next_numbers.get((file.topic, file.partition), 1)
        elif (rewritten := layout.parse_rewritten(item.key)) is not None:
            may_come = rewritten[1] > last_rewrites.get(rewritten[0], 0)
        (pending if may_come else outside).append(item.key)
    return Strays(tuple(sorted(pending)), tuple(sorted(outside)))


def open_lake(location: str | Path) -> Lake:
    """The lake at a directory or URL, as its log stands now.

    Raises `LakeError` if there is none or it cannot be read, `LogError` if its log is broken.
    """
    return read_lake(Store.open(location))


def read_lake(store: Store) -> Lake:
    """The lake in a store, as its log stands now."""
    histories = read_histories(store)
    # Rewrites are read last: what replaced a file is then known, never missed.
    rewrites = read_rewrites(store)
    files = {file.path: file for history in histories for file in history.files()}
    files |= {file.path: file for rewrite in rewrites for file in rewrite.added}
    for rewrite in rewrites:
        for removed in rewrite.removed:
            files.pop(removed.path, None)
    by_table: dict[Table, list[FileEntry]] = defaultdict(list)
    for path in sorted(files):
        by_table[files[path].table].append(files[path])
    return Lake(
        store, histories, rewrites, {table: tuple(by_table[table]) for table in layout.TABLES}
    )
