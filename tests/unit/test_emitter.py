"""The emitter waits, counts and tells; it never drops an event silently."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from pipeline.emitter import Emitter, RunRecorder, id_source, uuid7
from pipeline.errors import BrokerError
from schemas import EncodeError, RunEvent, decode
from schemas import Producer as Program

NOW_US = 1_772_366_400_123_456
EVENT = RunEvent(event_id="e", run_id="r", sequence=0, occurred_at=0, kind="message", body="{}")
Report = Callable[[KafkaError | None, Any], None]


class FakeProducer:
    """Holds at most `room` messages; a poll delivers one, or fails it with `error`."""

    def __init__(self, config: dict[str, Any], room: int = 3) -> None:
        self.config, self.room = config, room
        self.error: KafkaError | None = None
        self.refusal: KafkaError | None = None
        self.fatal: KafkaError | None = None
        self.queue: list[Report] = []
        self.sent: list[tuple[str, bytes, bytes, dict[str, bytes]]] = []

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        *,
        headers: dict[str, bytes],
        on_delivery: Report,
    ) -> None:
        if self.refusal is not None:
            raise KafkaException(self.refusal)
        if len(self.queue) >= self.room:
            raise BufferError
        self.queue.append(on_delivery)
        self.sent.append((topic, value, key, headers))

    def poll(self, timeout_s: float) -> int:
        if timeout_s and self.queue:
            self.queue.pop(0)(self.error, None)
        return 0

    def flush(self, timeout_s: float) -> int:
        if self.fatal is not None:
            raise KafkaException(self.fatal)
        while self.queue:
            self.poll(timeout_s)
        return 0

    def __len__(self) -> int:
        return len(self.queue)


def opened() -> tuple[Emitter, FakeProducer]:
    made: list[FakeProducer] = []

    def new_producer(config: dict[str, Any]) -> Producer:
        made.append(FakeProducer(config))
        return cast("Producer", made[0])

    return Emitter("localhost:1", "runs", new_producer=new_producer), made[0]


def test_an_event_is_keyed_by_its_run_and_told_by_its_first_bytes() -> None:
    emitter, producer = opened()
    size_bytes = emitter.emit(EVENT, headers={"source": b"test"})
    ((topic, value, key, headers),) = producer.sent
    assert (topic, key, headers) == ("runs", b"r", {"source": b"test"})
    assert decode(value) == EVENT and len(value) == size_bytes


def test_the_producer_is_idempotent_and_partitions_as_java_does() -> None:
    config = opened()[1].config
    assert config["enable.idempotence"] is True
    assert (config["acks"], config["partitioner"]) == ("all", "murmur2_random")


def test_a_full_queue_waits_and_loses_nothing() -> None:
    emitter, producer = opened()
    with emitter:
        for sequence in range(10):
            emitter.emit(replace(EVENT, sequence=sequence))
            assert len(producer.queue) <= producer.room
    assert [decode(value).sequence for _, value, _, _ in producer.sent] == list(range(10))
    assert emitter.delivered == 10


def test_undelivered_events_are_counted_in_the_error() -> None:
    emitter, producer = opened()
    emitter.emit(EVENT)
    emitter.emit(EVENT)
    producer.error = KafkaError(KafkaError._MSG_TIMED_OUT)
    with pytest.raises(BrokerError, match="2 events were not delivered"):
        emitter.flush()


def test_after_a_failed_delivery_the_next_event_is_refused_aloud() -> None:
    emitter, producer = opened()
    emitter.emit(EVENT)
    producer.error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    producer.poll(1)
    with pytest.raises(BrokerError, match="1 events were not delivered") as caught:
        emitter.emit(EVENT)
    assert caught.value.code == "not-allowed"
    assert len(producer.sent) == 1


def test_what_the_client_refuses_at_once_is_told_at_once() -> None:
    emitter, producer = opened()
    producer.refusal = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(BrokerError) as caught:
        emitter.emit(EVENT)
    assert caught.value.code == "message-too-large"


def test_a_broker_that_lets_nobody_write_is_told_in_a_sentence() -> None:
    emitter, producer = opened()
    producer.fatal = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError) as caught, emitter:
        emitter.emit(EVENT)
    assert caught.value.code == "not-allowed"
    with pytest.raises(ZeroDivisionError) as other, emitter:
        raise ZeroDivisionError
    assert any("1 events were not delivered" in note for note in other.value.__notes__)


def test_an_event_that_no_reader_would_take_is_not_sent() -> None:
    emitter, producer = opened()
    with pytest.raises(EncodeError):
        emitter.emit(replace(EVENT, body="no json"))
    assert producer.sent == []


def test_an_error_in_the_agent_is_not_hidden_by_undelivered_events() -> None:
    emitter, producer = opened()
    producer.error = KafkaError(KafkaError._ALL_BROKERS_DOWN)
    with pytest.raises(ZeroDivisionError) as caught, emitter:
        emitter.emit(EVENT)
        raise ZeroDivisionError
    assert any("1 events were not delivered" in note for note in caught.value.__notes__)


def test_what_the_client_waits_for_is_told() -> None:
    told: list[BrokerError] = []
    made: list[FakeProducer] = []

    def new_producer(config: dict[str, Any]) -> Producer:
        made.append(FakeProducer(config))
        return cast("Producer", made[0])

    Emitter("localhost:1", "runs", on_trouble=told.append, new_producer=new_producer)
    made[0].config["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert [trouble.code for trouble in told] == ["broker-away"]


def test_an_id_holds_its_time_and_sorts_by_it() -> None:
    made = UUID(uuid7(NOW_US, b"\xff" * 8))
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == NOW_US // 1000
    times_us = range(NOW_US, NOW_US + 3000, 250)
    ids = [uuid7(time_us, b"\x00" * 8) for time_us in times_us]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)


def test_random_bytes_fill_every_free_bit() -> None:
    low, high = (UUID(uuid7(0, byte * 8)).int for byte in (b"\x00", b"\xff"))
    assert low ^ high == (1 << 62) - 1


def test_a_recorder_numbers_and_stamps_the_events_of_its_run() -> None:
    times = iter(range(100, 200, 10))
    recorder = RunRecorder(
        "run-1",
        Program("agent", "1"),
        attempt=2,
        retry_of="run-1",
        retention_class="debug",
        subjects=("cus_1",),
        clock=lambda: next(times),
        new_id=id_source(lambda: NOW_US, lambda size: b"\x00" * size),
    )
    first = recorder.event("message", {"content": "é 1"})
    second = recorder.event("tool.requested", {}, name="look", call_id="c", idempotency_key="k")
    assert (first.sequence, second.sequence) == (0, 1)
    assert (first.occurred_at, second.occurred_at) == (100, 110)
    assert first.body == '{"content":"é 1"}'
    assert (second.name, second.call_id, second.idempotency_key) == ("look", "c", "k")
    for event in (first, second):
        assert (event.run_id, event.attempt, event.retry_of) == ("run-1", 2, "run-1")
        assert (event.retention_class, event.subjects) == ("debug", ("cus_1",))
        assert event.producer == Program("agent", "1")
        assert event.event_id == uuid7(NOW_US, b"\x00" * 8)
