"""One assembled slice into the lake, exactly once: steps 2 to 6 of the commit protocol.

A runner may lose, repeat or double any call here; what was done is known from the log alone.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter

from pipeline.errors import LogError, LostPartition
from pipeline.faultpoints import at
from pipeline.lake import layout
from pipeline.lake.entries import (
    Commit,
    FileEntry,
    Intent,
    digest,
    encode,
    shared_fields,
    version_of,
)
from pipeline.lake.log import PartitionLog, Position, lost_partition
from pipeline.lake.recovery import with_recovered_rows
from pipeline.lake.store import VERIFY_HINT, Store
from pipeline.lake.writer import files_of, publish_files
from pipeline.slices import MaskedSlice, Part, SliceHeader, StateChange


@dataclass(frozen=True, slots=True)
class WrittenSlice:
    """A slice whose files are published and whose commit is still to be written.

    `expired` counts events and dead letters that were not written because their bucket had ended;
    `state_digest` is that of the open-run state after the slice (None: there is none), and
    `is_state_base` says that older state is not needed any more.
    """

    header: SliceHeader
    number: int
    claim: str
    intent_digest: str
    files: tuple[FileEntry, ...]
    expired: int = 0
    state_digest: str | None = None
    is_state_base: bool = False

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
    """Writes and commits slices, those of one partition in order, as writer `claim`.

    `write` and `commit` may run in different workers: all that `commit` needs is in what `write`
    returned.
    """

    def __init__(
        self, store: Store, claim: str, clock_us: Callable[[], int] = system_clock_us
    ) -> None:
        self._store, self._claim, self._clock_us = store, claim, clock_us
        self._positions: dict[tuple[str, int], Position] = {}

    def write(self, masked: MaskedSlice) -> WrittenSlice | None:
        """Steps 2 to 5; None if the slice was committed before.

        2. Intent, unless this slice redoes one that is open.
        3. Write to `_tmp/<claim>/`, flush.
        4. Publish without replacing; a taken name is read back, checked and adopted.
        5. Write the open-run state.

        Raises `LostPartition` if another writer goes on here, `LogError` if the slice does not
        follow the last commit.
        """
        header = masked.header
        log = PartitionLog(self._store, header.topic, header.partition)
        position = self._position(log)
        if _is_committed(header, log, position):
            return None
        _check_follows(header, position)
        _check_state_follows(masked.state, position)
        # 2
        intent = position.open_intent or _new_intent(header, position, self._claim)
        if position.open_intent is None:
            at("intent.before")
            log.intend(intent)
            at("intent.after")
        elif not intent.covers(header):
            raise _foreign_intent(intent, self._claim)
        # 3, 4
        masked = with_recovered_rows(self._store, masked, intent.number)
        # Whoever goes on here takes away what lies unfinished; what a writer that was frozen wrote
        # only after that is not to be published once its slice is another's, or swept.
        files, expired = self._publish(masked, intent.number, lambda: log.check_open(intent.number))
        # 5
        state_digest = self._write_state(masked, intent.number, position)
        return WrittenSlice(
            masked.header,
            intent.number,
            self._claim,
            position.open_digest or digest(encode(intent)),
            files,
            expired,
            state_digest,
            is_state_base=bool(masked.state.document) and not masked.state.previous,
        )

    def commit(self, written: WrittenSlice) -> Commit:
        """Step 6, see `commit`."""
        return commit(self._store, written)

    def _position(self, log: PartitionLog) -> Position:
        place = log.topic, log.partition
        if place in self._positions:
            self._positions[place] = log.position(self._positions[place])
        else:
            at("claim.before")
            take_over(self._store, log.topic, log.partition, self._claim)
            at("claim.after")
            self._positions[place] = log.position()
        return self._positions[place]

    def _publish(
        self, masked: MaskedSlice, number: int, check: Callable[[], None]
    ) -> tuple[tuple[FileEntry, ...], int]:
        """Steps 3 and 4: the published files, and the number of rows whose bucket has ended."""

        def published(parts: tuple[Part, ...]) -> tuple[FileEntry, ...]:
            files = files_of(parts, masked.header, number, self._claim)
            return publish_files(self._store, files, check)

        kept, expired = self._without_ended(masked.parts)
        try:
            files = published(kept)
        except LostPartition:
            # A sweep may have taken the unfinished file of a bucket that has ended since.
            living, expired = self._without_ended(masked.parts)
            if len(living) == len(kept):
                raise
            files = published(living)
        return files, expired

    def _without_ended(self, parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], int]:
        """The parts whose bucket still lives, and the number of read rows in the others."""
        now = datetime.fromtimestamp(self._clock_us() / 1e6, UTC).strftime("%Y-%m-%dT%H")
        kept = tuple(part for part in parts if part.expires > now)
        ended = (part for part in parts if part.expires <= now and part.table != "runs")
        return kept, sum(part.rows.num_rows for part in ended)

    def _write_state(self, masked: MaskedSlice, number: int, position: Position) -> str | None:
        """The digest of the state after the slice: the last one's if nothing changed."""
        header, document = masked.header, masked.state.document
        if not document:
            return position.last_commit.state_digest if position.last_commit else None
        at("state.before")
        name = digest(document)
        key = layout.state_key(header.topic, header.partition, number, name)
        self._store.put_if_absent(key, document)
        at("state.after")
        return name


def commit(store: Store, written: WrittenSlice) -> Commit:
    """Step 6 for a slice that is written; again for the same slice it is success.

    6. Commit: from here on the files are part of the lake.

    Raises `LostPartition` if another writer committed in its place.
    """
    header = written.header
    entry = Commit(
        **shared_fields(header),
        number=written.number,
        claim=written.claim,
        previous=written.intent_digest,
        files=written.files,
        counts=header.counts,
        redactions=header.redactions,
        dead_letter_codes=header.dead_letter_codes,
        shadow=header.shadow,
        gaps=header.gaps,
        expired=written.expired,
        state_digest=written.state_digest,
        format=version_of(header.encoding),
    )
    # 6
    at("commit.before")
    PartitionLog(store, header.topic, header.partition).commit(entry)
    at("commit.after")
    if written.is_state_base:
        _drop_state_before(store, entry)
    return entry


def _drop_state_before(store: Store, entry: Commit) -> None:
    """Deletes what a newer base replaced; what a later writer has begun has a higher number."""
    for item in store.walk(layout.state_folder(entry.topic, entry.partition)):
        parsed = layout.parse_state_key(item.key)
        if parsed and parsed[0] < entry.number:
            store.delete(item.key)


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


def _new_intent(header: SliceHeader, position: Position, claim: str) -> Intent:
    return Intent(
        **shared_fields(header),
        number=position.next_number,
        claim=claim,
        previous=position.last_digest,
        format=version_of(header.encoding),
    )


def _is_committed(header: SliceHeader, log: PartitionLog, position: Position) -> bool:
    """Whether the log has this very slice (a runner repeats itself); `LostPartition` if the log
    has its offsets in a slice that another reader made."""
    last = position.last_commit
    if last is None or header.start > last.end:
        return False
    if header.start == last.end:  # it follows, unless it is the last one again, without offsets
        return shared_fields(last) == shared_fields(header)
    number = position.next_number - 1
    committed = position.last_commit
    while committed is not None and committed.start > header.start:
        number -= 1
        committed = log.commit_at(number)[0] if number > log.checkpoint_number() else None
    if committed is None or shared_fields(committed) != shared_fields(header):
        raise lost_partition(header.topic, header.partition)
    return True


def _check_state_follows(state: StateChange, position: Position) -> None:
    """A change of state that was made from any other state than the log's must not be kept."""
    last = position.last_commit
    if state.previous and (last is None or last.state_digest != state.previous):
        raise LogError(
            "a slice was assembled from another state of open runs than the log's",
            code="state-differs",
            hint="start the ingest again: it continues from the log",
        )


def _check_follows(header: SliceHeader, position: Position) -> None:
    if position.next_offset is None or header.start == position.next_offset:
        return
    if header.start < position.next_offset:  # committed in part, so by somebody else
        raise lost_partition(header.topic, header.partition)
    raise LogError(
        f"a slice starts at offset {header.start}, the log ends at {position.next_offset}",
        code="not-contiguous",
        hint=VERIFY_HINT,
    )


def _foreign_intent(intent: Intent, claim: str) -> LogError | LostPartition:
    if intent.claim != claim:
        return lost_partition(intent.topic, intent.partition)
    return LogError(
        "a slice differs from the intent it should redo",
        code="contradiction",
        hint="start the ingest again; if it stays so, `redactory log supersede`",
    )
