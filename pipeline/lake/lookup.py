"""Which files are part of the lake, asked one by one: without reading the whole log."""

from collections.abc import Mapping

from pipeline.lake.entries import Commit, FileEntry, decode
from pipeline.lake.layout import DataFile, entry_key, parse_data_file
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store


class CommittedFiles:
    """Looks up what slices committed, by file name; checkpoints are read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cut: dict[tuple[str, int], tuple[int, Mapping[str, FileEntry]]] = {}
        self._last: tuple[str, Mapping[str, FileEntry]] = ("", {})

    def find(self, key: str) -> FileEntry | None:
        """What a slice committed under `key`, whether removed since or not; None: nothing yet."""
        file = parse_data_file(key)
        if file is None:
            return None
        at = file.topic, file.partition
        if at not in self._cut or file.number > self._cut[at][0]:
            committed = self._committed(file)
            if committed is not None:
                return committed.get(key)
            self._cut[at] = self._read_cut(file)
        return self._cut[at][1].get(key)

    def _committed(self, file: DataFile) -> Mapping[str, FileEntry] | None:
        """What the commit of a file's slice names; None if there is none."""
        key = entry_key(file.topic, file.partition, file.number, "commit")
        if self._last[0] != key:
            document = self._store.get_or_none(key)
            if document is None:
                return None
            self._last = key, {entry.path: entry for entry in decode(Commit, document).files}
        return self._last[1]

    def _read_cut(self, file: DataFile) -> tuple[int, Mapping[str, FileEntry]]:
        checkpoint = PartitionLog(self._store, file.topic, file.partition).checkpoint()
        if checkpoint is None:
            return 0, {}
        return checkpoint.number, {entry.path: entry for entry in checkpoint.files}
