"""The numbered commit log of one topic partition.

Entries are numbered 1, 2, 3 …, each an intent and then a commit, both written only where nothing
stands yet.  Whoever finds another writer's entry in its place has lost the partition.
"""

from dataclasses import dataclass, replace

from pipeline.errors import LogError, LostPartition
from pipeline.lake import layout
from pipeline.lake.entries import (
    Checkpoint,
    Commit,
    Intent,
    decode,
    digest,
    shared_fields,
)
from pipeline.lake.numbered import NumberedLog
from pipeline.lake.store import Store


@dataclass(frozen=True, slots=True)
class Position:
    """Where a partition's log stands.

    `next_number` is the next commit's; `next_offset` where it must start (None: the log is empty);
    `open_intent` is one that waits for its commit and must be redone first; the digests are the
    SHA-256 of the documents ("" where there is none).
    """

    next_number: int
    next_offset: int | None
    last_commit: Commit | None
    last_digest: str
    open_intent: Intent | None
    open_digest: str

    @property
    def topic_id(self) -> str:
        """Kafka's id of the topic the log was read from ("": the log is empty or does not say)."""
        entry = self.open_intent or self.last_commit
        return entry.topic_id if entry else ""


_EMPTY = Position(1, None, None, "", None, "")


class PartitionLog:
    """Reads and extends the log of one partition; a writer is known by its entries' claim."""

    def __init__(self, store: Store, topic: str, partition: int) -> None:
        self.store, self.topic, self.partition = store, topic, partition
        self._entries = NumberedLog(store, layout.log_folder(topic, partition))

    def position(self, known: Position = _EMPTY) -> Position:
        """Where the log stands now; `known`, an earlier position, saves looking it up again."""
        first = known.next_number if known.last_commit else self.checkpoint_number() + 1
        last = self._entries.last_number(first)
        intent, intent_digest = self.intent_at(last + 1)
        if last < known.next_number:
            return replace(known, open_intent=intent, open_digest=intent_digest)
        commit, document = self.commit_at(last)
        return Position(last + 1, commit.end, commit, digest(document), intent, intent_digest)

    def intent_at(self, number: int) -> tuple[Intent | None, str]:
        """Intent `number` and its digest; (None, "") if there is none."""
        document = self._entries.read(number, "intent")
        return (decode(Intent, document), digest(document)) if document is not None else (None, "")

    def commit_at(self, number: int) -> tuple[Commit, bytes]:
        """Commit `number` and its document; `LakeError` ("missing") if there is none."""
        document = self.store.get(self._entries.key(number, "commit"))
        commit = decode(Commit, document)
        if (commit.topic, commit.partition, commit.number) != (self.topic, self.partition, number):
            raise LogError("a log entry stands under another's name", code="misplaced-entry")
        return commit, document

    def check_open(self, number: int) -> None:
        """Raises `LostPartition` if slice `number` is committed."""
        if self.store.get_or_none(self._entries.key(number, "commit")) is not None:
            raise lost_partition(self.topic, self.partition)

    def intend(self, intent: Intent) -> None:
        """Writes an intent; finding the same one of our own again is success."""
        if not self._entries.write(intent.number, "intent", intent):
            raise lost_partition(self.topic, self.partition)

    def commit(self, entry: Commit) -> None:
        """Writes a commit, which makes the slice part of the lake; durable on return."""
        if not self._entries.write(entry.number, "commit", entry):
            raise lost_partition(self.topic, self.partition)
        if self.checkpoint_number() > entry.number:
            # We slept until others had gone on and the log was cut: our entry is below the cut.
            raise lost_partition(self.topic, self.partition)

    def checkpoint_number(self) -> int:
        """The number of the latest checkpoint (0: none); its commit and all later ones are kept."""
        folder = layout.checkpoints_folder(self.topic, self.partition)
        return max(
            (int(item.key.rpartition("/")[2]) for item in self.store.walk(folder)), default=0
        )

    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint, None if the log was never cut."""
        number = self.checkpoint_number()
        key = layout.checkpoint_key(self.topic, self.partition, number)
        return decode(Checkpoint, self.store.get(key)) if number else None

    def supersede(self, reason: str, claim: str) -> Commit:
        """Closes the open intent without doing it; the next slice starts where it would have.

        Files that were published under its number stay outside the live set.
        """
        position = self.position()
        intent = position.open_intent
        if intent is None:
            raise LogError(
                "no intent is open in this partition",
                code="nothing-open",
                hint="`redactory log show` lists what is",
            )
        last = position.last_commit
        fields = shared_fields(intent) | {"end": intent.start, "claim": claim}
        fields["state_digest"] = last.state_digest if last else None
        entry = Commit(
            **fields,
            number=intent.number,
            previous=position.open_digest,
            superseded=reason,
            format=intent.format,
        )
        self.commit(entry)
        return entry


def lost_partition(topic: str, partition: int) -> LostPartition:
    """The error of a writer that finds another's entry where its own should stand."""
    return LostPartition(
        f"another writer works on partition {partition} of {topic}",
        code="lost-partition",
        hint="run one ingest per partition; started again, it continues where the log stands",
    )
