"""Consume and mask: a topic's partitions become masked slices, in order, from the log's position.

The reader is where raw payload lives and dies (invariant 1): it hands on masked slices only, so
whatever a runner materialises holds nothing raw.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage

from pipeline.building import SliceBuilder
from pipeline.config import IngestConfig
from pipeline.deadletters import DeadLetterGuard
from pipeline.errors import LogError, RegistryError
from pipeline.faultpoints import at as fault_at
from pipeline.kafka import broker_error, watermarks
from pipeline.lake.entries import Intent
from pipeline.lake.log import PartitionLog, Position
from pipeline.masking import Coordinates, Masker
from pipeline.slices import MaskedSlice, Message
from pipeline.state.memories import Memories
from pipeline.telling import tell_reading
from pipeline.unpacking import raw_message, unpacked

POLL_S = 0.2
BATCH_MESSAGES = 1_000

OPEN_SLICES = 4
"""All open slices together hold no more than so many full ones, however many partitions there are.
"""


@dataclass(frozen=True, slots=True)
class Clock:
    """`now_us()` stamps rows (epoch microseconds); `monotonic_s()` measures ages."""

    now_us: Callable[[], int]
    monotonic_s: Callable[[], float]


class Origin(Protocol):
    """Where the records come from: a topic, or a file in its place."""

    def topic_id(self, partition: int, end: int, key_id: str) -> str:
        """What a log entry with this end and key names the origin by."""

    def check(self, partition: int, position: Position) -> None:
        """Raises a PipelineError if the log was read from another origin."""

    def messages(self, record: Any, now_us: int, encoding: str) -> Sequence[Message]:
        """What a masker takes of a consumed record, which was written so: one message or more;
        `now_us` is its slice's clock reading."""


@dataclass(frozen=True, slots=True)
class FromTopic:
    """A topic of Kafka; `id` changes when it is deleted and made again."""

    name: str
    id: str

    def topic_id(self, partition: int, end: int, key_id: str) -> str:
        return self.id

    def check(self, partition: int, position: Position) -> None:
        if position.topic_id and position.topic_id != self.id:
            raise LogError(
                f"the topic {self.name} is not the one this lake has read before "
                "(it was deleted and made again)",
                code="topic-recreated",
                hint="read it into a new lake, or under another topic name",
            )

    def messages(self, record: KafkaMessage, now_us: int, encoding: str) -> Sequence[Message]:
        partition = record.partition()
        assert partition is not None
        return unpacked(raw_message(record), encoding, self.name, partition)


class MaskedSlices:
    """Iterates over the masked slices of some partitions of one topic.

    Ends when `stop()` is true, when the epoch is over, or, with `until_caught_up`, when every
    partition has been read to its end; open slices are handed out first, also before it raises
    RegistryError.  Raises BrokerError, LogError or LakeError, too.  A slice is masked by one
    masker: that of `masker_in_force()` when it was opened, or for a slice that is redone the
    intent's own.
    """

    def __init__(
        self,
        config: IngestConfig,
        consumer: Consumer,
        logs: Mapping[int, PartitionLog],
        origin: Origin,
        masker_in_force: Callable[[], Masker],
        masker_for: Callable[[Intent], Masker],
        memories_at: Callable[[int, Position], Memories],
        clock: Clock,
        stop: Callable[[], bool],
    ) -> None:
        self._config, self._consumer, self._logs = config, consumer, logs
        self._origin, self._masker_for = origin, masker_for
        self._masker_in_force, self._masker = masker_in_force, masker_in_force()
        self._memories_at, self._clock, self._stop = memories_at, clock, stop
        self._at = {partition: Coordinates(config.topic, partition) for partition in logs}
        self._memories: dict[int, Memories] = {}
        self._guard = DeadLetterGuard(config.max_dead_letter_rate)
        self._open: dict[int, SliceBuilder] = {}
        self._next: dict[int, int] = {}
        self._caught_up: set[int] = set()
        self._waiting: set[int] = set()
        self._ticked_s: dict[int, float] = {}
        self._held_records = self._held_bytes = 0

    def __iter__(self) -> Iterator[MaskedSlice]:
        ends_s = self._clock.monotonic_s() + self._config.epoch_s
        for partition, log in self._logs.items():
            position = log.position()
            self._memories[partition] = self._memories_at(partition, position)
            self._next[partition] = self._start_of(partition, position)
            if position.open_intent:
                redone = self._redo(partition, position.open_intent)
                if redone is None:
                    return
                yield redone
        self._assign(self._next)
        tell_reading(self._next)
        while not self._is_over(ends_s):
            yield from self._follow_rules()
            for message in self._consume():
                if self._stop():
                    break  # what is not taken is read again from the log
                try:
                    closed = self._take(message)
                except RegistryError:
                    yield from self._close_all()  # what came before it can be stored
                    raise
                if closed is not None:
                    yield closed
            yield from self._close_old()
            yield from self._let_time_pass()
        yield from self._close_all()

    def _follow_rules(self) -> Iterator[MaskedSlice]:
        """Goes on under the rules in force; what is open was masked under the ones before."""
        masker = self._masker_in_force()
        if masker is not self._masker:
            yield from self._close_all()
            self._masker = masker

    def _is_over(self, ends_s: float) -> bool:
        if self._config.until_caught_up:  # no other pipeline follows that would read the rest
            return self._stop() or self._caught_up >= self._next.keys()
        return self._stop() or self._clock.monotonic_s() >= ends_s

    def _take(self, message: KafkaMessage) -> MaskedSlice | None:
        """Takes one message into its partition's open slice; one that is full is closed."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        error = message.error()
        if error is not None:
            return self._take_error(partition, offset, error)
        self._waiting.discard(partition)
        builder, at = self._builder(partition), self._at[partition]
        self._mask_into(builder, message, self._masker, at, self._config.encoding)
        self._held_records += 1
        self._held_bytes += len(message)
        if self._is_full(builder.records, builder.size_bytes):
            return self._close(partition)
        if self._is_full(self._held_records // OPEN_SLICES, self._held_bytes // OPEN_SLICES):
            return self._close(max(self._open, key=self._weight))
        return None

    def _is_full(self, records: int, size_bytes: int) -> bool:
        limits = self._config.limits
        return records >= limits.records or size_bytes >= limits.size_bytes

    def _weight(self, partition: int) -> float:
        """How full a partition's open slice is."""
        builder, limits = self._open[partition], self._config.limits
        return max(builder.records / limits.records, builder.size_bytes / limits.size_bytes)

    def _take_error(self, partition: int, offset: int, error: KafkaError) -> MaskedSlice | None:
        if error.code() == KafkaError._PARTITION_EOF:
            if offset > self._reached(partition):  # what is left are transaction markers
                self._builder(partition).skip_to(offset, "not-delivered")
            self._caught_up.add(partition)
            self._waiting.add(partition)
            if self._config.until_caught_up and partition in self._open:
                return self._close(partition)
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            # The topic's own retention overtook us: declare what is gone and go on behind it.
            at = self._reached(partition)
            low = self._checked_low(partition, at)
            self._builder(partition).skip_to(low, "expired-in-topic")
            self._consumer.incremental_unassign([TopicPartition(self._config.topic, partition)])
            self._consumer.incremental_assign([TopicPartition(self._config.topic, partition, low)])
        else:
            raise broker_error(error)
        return None

    def _close_old(self) -> Iterator[MaskedSlice]:
        now_s = self._clock.monotonic_s()
        for partition, builder in sorted(self._open.items()):
            if now_s - builder.opened_s >= self._config.limits.age_s:
                yield self._close(partition)

    def _let_time_pass(self) -> Iterator[MaskedSlice]:
        """Slices without offsets, so that runs time out where nothing more comes.

        Only for partitions that are read to their end: elsewhere a run may just have to wait.
        """
        now_s = self._clock.monotonic_s()
        for partition in sorted(self._waiting):
            last_s = self._ticked_s.get(partition)
            if last_s is not None and now_s - last_s < self._config.tick_s:
                continue
            self._ticked_s[partition] = now_s
            if partition in self._open:
                yield self._close(partition)
            at, now_us = self._next[partition], self._clock.now_us()
            yield self._tick(partition, at, now_us, self._masker, self._config.encoding)

    def _tick(
        self, partition: int, at: int, now_us: int, masker: Masker, encoding: str
    ) -> MaskedSlice:
        memories = self._memories[partition]
        memories.forget_before(now_us - self._config.run_timeout_us)
        builder = SliceBuilder(at, now_us, self._clock.monotonic_s(), memories)
        return self._finish(partition, builder, masker, encoding)

    def _builder(self, partition: int) -> SliceBuilder:
        builder = self._open.get(partition)
        if builder is None:
            builder = SliceBuilder(
                self._next[partition],
                self._clock.now_us(),
                self._clock.monotonic_s(),
                self._memories[partition],
            )
            self._open[partition] = builder
        return builder

    def _reached(self, partition: int) -> int:
        builder = self._open.get(partition)
        return builder.next_offset if builder else self._next[partition]

    def _close_all(self) -> Iterator[MaskedSlice]:
        for partition in sorted(self._open):
            yield self._close(partition)

    def _close(self, partition: int) -> MaskedSlice:
        builder = self._open.pop(partition)
        self._held_records -= builder.records
        self._held_bytes -= builder.size_bytes
        self._next[partition] = builder.next_offset
        masked = self._finish(partition, builder, self._masker, self._config.encoding)
        self._guard.check(builder.messages, masked.header.counts["dead_letters"])
        return masked

    def _finish(
        self, partition: int, builder: SliceBuilder, masker: Masker, encoding: str
    ) -> MaskedSlice:
        return builder.finish(
            self._origin.topic_id(partition, builder.next_offset, masker.redactor.key_id),
            masker,
            self._at[partition],
            encoding,
        )

    def _redo(self, partition: int, intent: Intent) -> MaskedSlice | None:
        """Reads an intent's range again under the intent's own ruleset, key, policy, time and
        encoding.

        None if it was stopped meanwhile: half a slice is no slice.
        """
        masker = self._masker_for(intent)
        if intent.start == intent.end:
            return self._tick(partition, intent.start, intent.now_us, masker, intent.encoding)
        builder = SliceBuilder(
            intent.start, intent.now_us, self._clock.monotonic_s(), self._memories[partition]
        )
        low = self._checked_low(partition, intent.start)
        builder.skip_to(min(low, intent.end), "lost-before-redo")
        if builder.next_offset < intent.end:
            self._assign({partition: builder.next_offset})
            at = self._at[partition]
            while builder.next_offset < intent.end:
                if self._stop():
                    return None
                self._redo_some(builder, intent, masker, at)
        self._next[partition] = intent.end
        return self._finish(partition, builder, masker, intent.encoding)

    def _redo_some(
        self, builder: SliceBuilder, intent: Intent, masker: Masker, at: Coordinates
    ) -> None:
        for message in self._consume():
            offset, error = message.offset(), message.error()
            assert offset is not None
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise broker_error(error)
            if offset >= intent.end or error is not None:
                builder.skip_to(intent.end, "not-delivered")
                return
            self._mask_into(builder, message, masker, at, intent.encoding)

    def _mask_into(
        self,
        builder: SliceBuilder,
        message: KafkaMessage,
        masker: Masker,
        at: Coordinates,
        encoding: str,
    ) -> None:
        raw = self._origin.messages(message, builder.now_us, encoding)
        fault_at("redact.before")
        builder.take(raw, masker, at)
        fault_at("redact.after")

    def _consume(self) -> list[KafkaMessage]:
        fault_at("read.before")
        messages = self._consumer.consume(BATCH_MESSAGES, POLL_S)
        fault_at("read.after")
        return messages

    def _assign(self, offsets: Mapping[int, int]) -> None:
        topic = self._config.topic
        self._consumer.assign([TopicPartition(topic, p, offset) for p, offset in offsets.items()])

    def _start_of(self, partition: int, position: Position) -> int:
        """Where reading starts: the log's word, or the oldest record for a new partition."""
        self._origin.check(partition, position)
        if position.next_offset is None:
            return self._watermarks(partition)[0]
        low = self._checked_low(partition, position.next_offset)
        if low > position.next_offset and not position.open_intent:
            self._next[partition] = position.next_offset
            self._builder(partition).skip_to(low, "expired-in-topic")
            return low
        return position.next_offset

    def _checked_low(self, partition: int, offset: int) -> int:
        """The oldest offset the topic still has; refuses a topic that ends before `offset`."""
        low, high = self._watermarks(partition)
        if offset > high:
            raise LogError(
                f"partition {partition} ends at offset {high}, the lake has read up to {offset}",
                code="offset-above-topic",
                hint="another topic stands under this name: read it into a new lake",
            )
        return low

    def _watermarks(self, partition: int) -> tuple[int, int]:
        return watermarks(self._consumer, self._config.topic, partition, timeout_s=30.0)
