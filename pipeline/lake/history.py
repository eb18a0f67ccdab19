"""What the log of a partition says happened, read as a whole."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pipeline.errors import LakeError
from pipeline.lake import layout
from pipeline.lake.entries import Checkpoint, Commit, FileEntry, Rewrite, decode
from pipeline.lake.log import PartitionLog, Position
from pipeline.lake.store import Store

_READERS = 16  # entries are small: what costs on an object store is the round trip


@dataclass(frozen=True, slots=True)
class History:
    """A partition's commits above its latest checkpoint, and where its log stands."""

    topic: str
    partition: int
    checkpoint: Checkpoint | None
    commits: tuple[Commit, ...]
    position: Position

    def files(self) -> Iterator[FileEntry]:
        """Every file that the checkpoint or a commit names."""
        if self.checkpoint:
            yield from self.checkpoint.files
        for commit in self.commits:
            yield from commit.files

    def encodings_at(self, offset: int) -> tuple[str, ...]:
        """How the record at an offset was read, as far as the log goes back, and how records are
        read now."""
        last = self.position.last_commit
        then = next((commit for commit in self.commits if commit.end > offset), last)
        return tuple(dict.fromkeys(commit.encoding for commit in (then, last) if commit))

    @property
    def start(self) -> int | None:
        """The first offset the log covers; None while it covers nothing."""
        if self.checkpoint:
            return self.checkpoint.start
        return self.commits[0].start if self.commits else None


def partitions(store: Store) -> list[tuple[str, int]]:
    """(topic, partition) of every partition that has a log, sorted."""
    folders = (sub for folder in store.folders(layout.LOG) for sub in store.folders(folder))
    found = (layout.parse_log_folder(folder) for folder in folders)
    return sorted(item for item in found if item is not None)


def read_history(store: Store, topic: str, partition: int) -> History:
    """The history of one partition; raises `LogError` or `LakeError` where it cannot be read."""
    log = PartitionLog(store, topic, partition)
    cut = log.checkpoint_number()
    try:
        return _read(log)
    except LakeError:
        if log.checkpoint_number() == cut:
            raise
        return _read(log)  # the log was cut while it was read


def _read(log: PartitionLog) -> History:
    checkpoint = log.checkpoint()
    position = log.position()
    numbers = range(checkpoint.number + 1 if checkpoint else 1, position.next_number)
    with ThreadPoolExecutor(_READERS) as pool:
        commits = tuple(commit for commit, _ in pool.map(log.commit_at, numbers))
    return History(log.topic, log.partition, checkpoint, commits, position)


def read_histories(
    store: Store, topic: str | None = None, partition: int | None = None
) -> tuple[History, ...]:
    """The histories of every partition, or of those that are asked for."""
    return tuple(
        read_history(store, *at)
        for at in partitions(store)
        if topic in (None, at[0]) and partition in (None, at[1])
    )


def read_rewrites(store: Store) -> tuple[Rewrite, ...]:
    """Every finished rewrite of every bucket, those of one bucket in order.

    Those that were summed up are not among them: nothing they did matters any more.
    """
    try:
        documents = read_documents(store, layout.REWRITES, ".commit")
    except LakeError as error:
        if error.code != "missing":
            raise
        documents = read_documents(store, layout.REWRITES, ".commit")  # cut while they were read
    return tuple(decode(Rewrite, document) for document in documents.values())


def read_cuts(store: Store) -> dict[str, int]:
    """Up to which number each bucket's rewrites were summed up, by the folder of its log."""
    cuts: dict[str, int] = {}
    for item in store.walk(layout.CUTS):
        folder, _, number = item.key.rpartition("/")
        folder = layout.REWRITES + folder.removeprefix(layout.CUTS)
        cuts[folder] = max(int(number), cuts.get(folder, 0))
    return cuts


def read_documents(store: Store, folder: str, suffix: str = "") -> dict[str, bytes]:
    """The small documents below a folder whose keys end so, by key in order, many at once."""
    keys = sorted(item.key for item in store.walk(folder) if item.key.endswith(suffix))
    with ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(keys, pool.map(store.get, keys), strict=True))
