"""How far an ingest is behind its topic: for those who watch, never for those who read."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from pipeline.config import IngestConfig
from pipeline.faultpoints import at
from pipeline.kafka import client_config

EVERY_S = 2.0
REQUEST_S = 10.0
CLOSE_S = 2.0


def group_id(topic: str) -> str:
    """The consumer group under which an ingest of `topic` is seen at the broker."""
    return f"redactory-{topic}"


class GroupOffsets:
    """Tells the broker how far a lake is, for lag monitors; nothing reads it back."""

    def __init__(self, config: IngestConfig) -> None:
        # A consumer would wait for a lost broker when it is closed; files have no broker at all.
        self._admin = (
            AdminClient(client_config(config.bootstrap, config.client_file))
            if not config.files
            else None
        )
        self._sent: set[Future[Any]] = set()

    def commit(self, topic: str, partition: int, end: int) -> None:
        """Sends the offset and does not wait: the next one makes up for one that is lost."""
        if self._admin is None:
            return
        at("offset-commit.before")
        offsets = ConsumerGroupTopicPartitions(
            group_id(topic), [TopicPartition(topic, partition, end)]
        )
        sent = self._admin.alter_consumer_group_offsets([offsets], request_timeout=REQUEST_S)
        self._sent = {each for each in self._sent if not each.done()} | set(sent.values())
        at("offset-commit.after")

    def close(self) -> None:
        """Waits a moment for what was sent."""
        wait(self._sent, timeout=CLOSE_S)


class LagWatch:
    """Asks the broker every two seconds where the partitions end; a context manager."""

    def __init__(self, config: IngestConfig, partitions: Sequence[int]) -> None:
        self._topic, self._partitions = config.topic, partitions
        self._consumer = Consumer(
            client_config(config.bootstrap, config.client_file, **{"group.id": "redactory-lag"})
        )
        self._highs: dict[int | str, int] = {}
        self.answered_s: float | None = None
        """When the broker answered last (monotonic); None: it never did."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "LagWatch":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._consumer.close()

    def highs(self) -> dict[int | str, int]:
        """Where the partitions end, as far as it is known."""
        return dict(self._highs)

    def of(self, ends: Mapping[int | str, int]) -> int | None:
        """Messages not yet committed over the partitions in `ends`; None: not known yet."""
        highs = self.highs()
        if not highs.keys() >= ends.keys() or not ends:
            return None
        return sum(max(0, highs[partition] - end) for partition, end in ends.items())

    def _watch(self) -> None:
        while not self._over.is_set():
            for partition in self._partitions:
                try:
                    found = self._consumer.get_watermark_offsets(
                        TopicPartition(self._topic, partition), timeout=1.0
                    )
                except KafkaException:
                    continue  # the broker is away: the last known ends stay
                if found is not None:
                    self._highs[partition] = found[1]
                    self.answered_s = time.monotonic()
            self._over.wait(EVERY_S)
