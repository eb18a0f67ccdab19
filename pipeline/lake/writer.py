"""One masked slice into the lake, exactly once: steps 2 to 6 of the commit protocol.

A runner may lose, repeat or double any call here; what was done is known from the log alone.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter

from pipeline.errors import LakeError, LogError, LostPartition
from pipeline.faultpoints import at
from pipeline.lake import layout
from pipeline.lake.entries import CommitEntry, FileEntry, Intent, digest, encode, shared_fields
from pipeline.lake.log import PartitionLog, Position
from pipeline.lake.parquet import count_rows, from_parquet, to_parquet
from pipeline.lake.store import VERIFY_HINT, Store, taken_over
from pipeline.slices import MaskedSlice, Part, SliceHeader


@dataclass(frozen=True, slots=True)
class WrittenSlice:
    """A slice whose files are published and whose commit is still to be written.

    `expired` counts rows that were not written because their bucket had ended.
    """

    header: SliceHeader
    number: int
    claim: str
    intent_digest: str
    files: tuple[FileEntry, ...]
    expired: int = 0

    def to_json(self) -> bytes:
        return encode(self)

    @staticmethod
    def from_json(document: bytes) -> "WrittenSlice":
        return _WRITTEN.validate_json(document)


_WRITTEN = TypeAdapter(WrittenSlice)


def system_clock_us() -> int:
    """The system's clock, in epoch microseconds."""
    return time.time_ns() // 1_000


class SliceCommitter:
    """Writes and commits the slices of one partition, in order, as writer `claim`.

    `write` and `commit` may run in different workers: all that `commit` needs is in what `write`
    returned.
    """

    def __init__(
        self,
        store: Store,
        topic: str,
        partition: int,
        claim: str,
        clock_us: Callable[[], int] = system_clock_us,
    ) -> None:
        self.store, self.claim, self.clock_us = store, claim, clock_us
        self.log = PartitionLog(store, topic, partition, claim)
        self._position: Position | None = None

    def write(self, masked: MaskedSlice) -> WrittenSlice | None:
        """Steps 2 to 4; None if the slice was committed before.

        2. Intent, unless this slice redoes one that is open.
        3. Write to `_tmp/<claim>/`, flush.
        4. Publish without replacing; a taken name is read back, checked and adopted.

        Raises `LostPartition` if another writer goes on here, `LogError` if the slice does not
        follow the last commit.
        """
        position = self._next_position()
        header = masked.header
        if position.next_offset is not None and header.end <= position.next_offset:
            return None
        _check_follows(header, position)
        # 2
        intent = position.open_intent or self.log.new_intent(header, position)
        if position.open_intent is None:
            at("intent.before")
            self.log.intend(intent)
            at("intent.after")
        elif not intent.covers(header):
            raise _foreign_intent(intent, self.claim)
        # 3, 4
        kept, expired = self._without_ended(masked.parts)
        files = write_parts(self.store, kept, header, intent.number, self.claim)
        return WrittenSlice(
            header, intent.number, self.claim, digest(encode(intent)), files, expired
        )

    def commit(self, written: WrittenSlice) -> CommitEntry:
        """Steps 5 and 6; again for the same slice it is success.

        5. Open-run state, sealed, before the commit (comes with the run records).
        6. Commit: from here on the files are part of the lake.
        """
        header = written.header
        entry = CommitEntry(
            **shared_fields(header),
            number=written.number,
            claim=written.claim,
            previous=written.intent_digest,
            files=written.files,
            counts=header.counts,
            redactions=header.redactions,
            dead_letter_codes=header.dead_letter_codes,
            gaps=header.gaps,
            expired=written.expired,
        )
        # 6
        at("commit.before")
        self.log.commit(entry)
        at("commit.after")
        return entry

    def _next_position(self) -> Position:
        if self._position is None:
            take_over(self.store, self.log.topic, self.log.partition, self.claim)
            self._position = self.log.position()
        else:
            self._position = self.log.position(self._position)
        return self._position

    def _without_ended(self, parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], int]:
        """The parts whose bucket still lives, and the number of rows in the others."""
        now = datetime.fromtimestamp(self.clock_us() / 1e6, UTC).strftime("%Y-%m-%dT%H")
        kept = tuple(part for part in parts if part.expires > now)
        return kept, sum(part.rows.num_rows for part in parts if part.expires <= now)


def take_over(store: Store, topic: str, partition: int, claim: str) -> None:
    """Renames the unfinished files of every other writer of the partition away, then removes them.

    A writer that was only frozen then has nothing left to publish.
    """
    for folder in store.folders(layout.TMP):
        other = folder.rpartition("/")[2]
        if other == claim:
            continue
        taken = f"{layout.TMP}/{claim}/taken-{other}-{topic}-{partition}"
        store.move_away(layout.tmp_folder(other, topic, partition), taken)
        store.remove_folder(taken)


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


def _check_follows(header: SliceHeader, position: Position) -> None:
    if position.next_offset is not None and header.start != position.next_offset:
        raise LogError(
            f"a slice starts at offset {header.start}, the log ends at {position.next_offset}",
            code="not-contiguous",
            hint=VERIFY_HINT,
        )


def _foreign_intent(intent: Intent, claim: str) -> LogError | LostPartition:
    if intent.claim == claim:
        return LogError(
            "a slice differs from the intent it should redo",
            code="contradiction",
            hint="start the ingest again; if it stays so, `redactory log supersede`",
        )
    return LostPartition(
        f"another writer works on partition {intent.partition} of {intent.topic}",
        code="lost-partition",
        hint="run one ingest per partition; started again, it continues where the log stands",
    )
