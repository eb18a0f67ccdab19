"""What a reader holds at a time is bounded, and of one ruleset, whatever comes and changes."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from redaction_samples import KEYS, small_ruleset

from pipeline.config import IngestConfig, SliceLimits
from pipeline.errors import RegistryError, TooManyDeadLetters
from pipeline.lake.entries import Intent
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.masking import Masker
from pipeline.reader import OPEN_SLICES, Clock, FromTopic, MaskedSlices
from pipeline.retention.policy import load_policy
from pipeline.slices import MaskedSlice
from pipeline.state.memories import Memories
from redactors import KeyRing, Redactor
from schemas import Decoder, RunEvent, encode

NOW_US = 1_790_000_000_000_000
LIMITS = SliceLimits(records=100, size_bytes=100_000, age_s=5.0)


@dataclass
class FakeMessage:
    """As much of a Kafka message as the reader asks for."""

    at: tuple[int, int]
    data: bytes

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def value(self) -> bytes:
        return self.data

    def key(self) -> bytes:
        return b"run-1"

    def timestamp(self) -> tuple[int, int]:
        return 1, NOW_US // 1000

    def error(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def __len__(self) -> int:
        return len(self.data)


@dataclass
class FakeConsumer:
    """Hands out messages of a size to partitions in turn, without end."""

    partitions: int
    size_bytes: int
    given: int = 0
    assigned: list[Any] = field(default_factory=list)

    def assign(self, partitions: list[Any]) -> None:
        self.assigned = partitions

    def consume(self, count: int, timeout_s: float) -> list[FakeMessage]:
        return [self._next() for _ in range(count)]

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        return 0, 10**9

    def _next(self) -> FakeMessage:
        partition, offset = self.given % self.partitions, self.given // self.partitions
        self.given += 1
        event = RunEvent(
            event_id=f"event-{offset}",
            run_id="run-1",
            sequence=offset,
            occurred_at=NOW_US,
            kind="message",
            body=json.dumps({"said": "x" * self.size_bytes}),
        )
        return FakeMessage((partition, offset), encode(event))


Read = Callable[[FakeConsumer], Iterator[tuple[MaskedSlice, int]]]


def reader_of(
    folder: Path, consumer: FakeConsumer, masker_in_force: Callable[[], Masker]
) -> MaskedSlices:
    store = Store.open(folder / "lake", create=True)
    return MaskedSlices(
        replace(IngestConfig("b", "runs", "lake"), limits=LIMITS),
        consumer,  # type: ignore[arg-type]  # as much of one as the reader asks for
        {p: PartitionLog(store, "runs", p) for p in range(consumer.partitions)},
        FromTopic("runs", "topic-id"),
        masker_in_force,
        lambda intent: masker_in_force(),
        lambda *at: Memories(KeyRing.generate(), {}),
        Clock(lambda: NOW_US, lambda: 0.0),
        lambda: False,
    )


@pytest.fixture
def read(tmp_path: Path, masker: Masker) -> Read:
    """Slices without end, each with the number of messages that are held besides."""

    def slices(consumer: FakeConsumer) -> Iterator[tuple[MaskedSlice, int]]:
        reader = reader_of(tmp_path, consumer, lambda: masker)
        for masked in reader:
            yield masked, sum(builder.records for builder in reader._open.values())

    return slices


def _first(read: Read, consumer: FakeConsumer, count: int) -> list[tuple[MaskedSlice, int]]:
    slices = read(consumer)
    return [next(slices) for _ in range(count)]


@pytest.mark.parametrize("partitions", [1, 64])
def test_small_messages_are_bounded_by_their_number(read: Read, partitions: int) -> None:
    for masked, held in _first(read, FakeConsumer(partitions, 10), 30):
        assert masked.header.counts["messages"] <= LIMITS.records
        assert held <= OPEN_SLICES * LIMITS.records


@pytest.mark.parametrize("partitions", [1, 64])
def test_large_messages_are_bounded_by_their_size(read: Read, partitions: int) -> None:
    size = 20_000
    for masked, held in _first(read, FakeConsumer(partitions, size), 30):
        assert masked.header.counts["bytes"] < LIMITS.size_bytes + 2 * size
        assert held * size <= OPEN_SLICES * LIMITS.size_bytes


def test_of_one_message_larger_than_a_slice_a_slice_is_made(read: Read) -> None:
    for masked, held in _first(read, FakeConsumer(2, 150_000), 6):
        assert (masked.header.counts["messages"], held) == (1, 0)


def test_no_partition_is_starved_by_the_others(read: Read) -> None:
    seen = {masked.header.partition for masked, _ in _first(read, FakeConsumer(64, 10), 200)}
    assert seen == set(range(64))


def test_rules_that_change_between_messages_never_share_a_slice(tmp_path: Path) -> None:
    maskers = [Masker(Redactor(small_ruleset(version=v), KEYS), load_policy()) for v in ("1", "2")]
    changes = itertools.cycle([maskers[0], maskers[1], maskers[1]])
    reader = reader_of(tmp_path, FakeConsumer(3, 10), lambda: next(changes))
    reached, seen = Counter[int](), set()
    for masked in itertools.islice(reader, 60):
        header = masked.header
        assert header.start == reached[header.partition]
        reached[header.partition] = header.end
        rulesets = {row for part in masked.parts for row in part.rows["ruleset"].to_pylist()}
        assert rulesets == {header.ruleset}
        seen.add((header.ruleset, header.counts["messages"] == LIMITS.records))
    # Also slices that were closed before they were full.
    assert seen == {(m.redactor.digest, full) for m in maskers for full in (True, False)}


class NamesSchema(FakeConsumer):
    """After some messages comes one that names a schema of a registry."""

    def _next(self) -> FakeMessage:
        message = super()._next()
        return FakeMessage(message.at, b"\0\0\0\0\7") if self.given == 50 else message


def test_while_the_registry_is_away_what_came_before_is_handed_out(
    tmp_path: Path, masker: Masker
) -> None:
    def away(schema_id: object) -> None:
        raise RegistryError("it is away", code="registry-away")

    asking = Masker(masker.redactor, masker.policy, decoder=Decoder(away))
    reader, taken = reader_of(tmp_path, NamesSchema(3, 10), lambda: asking), []
    with pytest.raises(RegistryError):
        for masked in reader:
            taken.append((masked.header.partition, masked.header.start, masked.header.end))
    # The fiftieth message is number 16 of partition 1.
    assert taken == [(0, 0, 17), (1, 0, 16), (2, 0, 16)]
    assert reader._open == {}


class Exports(FakeConsumer):
    """Hands out export requests of a Collector, each with one span."""

    def _next(self) -> FakeMessage:
        message = super()._next()
        span = {"traceId": "ab" * 16, "spanId": f"{message.at[1]:016x}", "parentSpanId": "c"}
        request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        return FakeMessage(message.at, json.dumps(request).encode())


def test_what_was_begun_is_read_again_as_its_intent_says(tmp_path: Path, masker: Masker) -> None:
    """Whatever this ingest was told the topic holds."""
    reader = iter(reader_of(tmp_path, Exports(1, 10), lambda: masker))
    digests = masker.redactor.digest, masker.policy.digest, masker.redactor.key_id
    intent = Intent("runs", "topic-id", 0, 1, 0, 5, NOW_US, *digests, "c" * 32, "")
    log = PartitionLog(Store.open(tmp_path / "lake"), "runs", 0)
    log.intend(replace(intent, encoding="otlp-json"))
    redone = next(reader).header
    assert (redone.end, redone.encoding) == (5, "otlp-json")
    # Each span, and its resource.
    assert (redone.counts["messages"], redone.counts["events"]) == (5, 10)
    with pytest.raises(TooManyDeadLetters):
        next(reader)
