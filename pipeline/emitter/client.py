"""The light client that agents import: run events to a Kafka topic, none dropped silently."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pipeline.errors import BrokerError
from pipeline.kafka import broker_error, client_config
from schemas import MAX_SIZE_BYTES, RunEvent, encode

SETTINGS: Final[Mapping[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    # The Java client's default: the same run lands in the same partition from every client.
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
    "linger.ms": 20,
    "message.timeout.ms": 120_000,
    "queue.buffering.max.kbytes": 65_536,
    # Room for the key and the headers: what a topic really takes is the broker's to say.
    "message.max.bytes": MAX_SIZE_BYTES + 65_536,
}

WAIT_S: Final = 0.1
ABANDON_S: Final = 5.0


class Emitter:
    """Sends events keyed by run id, so that a run stays in one partition, in order.

    `config_file` holds security settings of the cluster.  With `schema_id`, the schema's in a
    registry (`emitted_as`), values have Confluent's framing.  `on_trouble` is told what the client
    is waiting for while it tries again.  `new_producer` makes the Kafka producer.  As a context
    manager it flushes at the end.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        config_file: Path | None = None,
        schema_id: int | None = None,
        on_trouble: Callable[[BrokerError], None] = lambda trouble: None,
        new_producer: Callable[[dict[str, Any]], Producer] = Producer,
    ) -> None:
        self._topic, self._schema_id = topic, schema_id
        self._on_trouble = on_trouble
        settings = client_config(bootstrap, config_file, **SETTINGS)
        self._producer = new_producer(settings | {"error_cb": self._tell_trouble})
        self._delivered = self._failed = 0
        self._cause: KafkaError | None = None

    @property
    def delivered(self) -> int:
        """How many events the broker has acknowledged so far."""
        return self._delivered

    def emit(self, event: RunEvent, *, headers: Mapping[str, bytes] | None = None) -> int:
        """Queue one event and return its size in bytes; a full queue waits.

        Raises `schemas.EncodeError` for an event that no reader would take, and BrokerError if an
        earlier one could not be delivered: this one is then not queued.
        """
        if self._failed:
            raise self._undelivered(self._failed)
        value = encode(event, self._schema_id)
        with self._broker_errors():
            while not self._queued(event.run_id.encode(), value, headers):
                self._producer.poll(WAIT_S)
            self._producer.poll(0)
        return len(value)

    def flush(self) -> None:
        """Wait until every event is delivered or given up; BrokerError counts the latter.

        The client gives an event up after `message.timeout.ms` (two minutes), and all of them at
        once where the broker does not let this user write.
        """
        with self._broker_errors():
            while len(self._producer):
                self._producer.flush(WAIT_S)
        if self._failed:
            raise self._undelivered(self._failed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.flush()
            return
        with suppress(KafkaException):
            self._producer.flush(ABANDON_S)
        if left := len(self._producer) + self._failed:
            error.add_note(str(self._undelivered(left)))

    def _queued(self, key: bytes, value: bytes, headers: Mapping[str, bytes] | None) -> bool:
        try:
            self._producer.produce(
                self._topic,
                value,
                key,
                headers=dict(headers or {}),
                on_delivery=self._report,
            )
        except BufferError:
            return False
        return True

    @contextmanager
    def _broker_errors(self) -> Iterator[None]:
        """The client raises where it will never be able to write."""
        try:
            yield
        except KafkaException as error:
            raise broker_error(error, self._topic) from None

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._delivered += 1
        else:
            self._failed += 1
            self._cause = self._cause or error

    def _tell_trouble(self, error: KafkaError) -> None:
        self._on_trouble(broker_error(error, self._topic))

    def _undelivered(self, count: int) -> BrokerError:
        if self._cause is None:
            return BrokerError(f"{count} events were not delivered", code="undelivered")
        reason = broker_error(self._cause, self._topic)
        return BrokerError(
            f"{count} events were not delivered: {reason}", code=reason.code, hint=reason.hint
        )
