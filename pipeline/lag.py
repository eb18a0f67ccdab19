"""How far an ingest is behind its topic."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, TopicPartition

from pipeline.config import IngestConfig
from pipeline.kafka import client_config

EVERY_S = 2.0


class LagWatch:
    """Asks the broker every two seconds where the partitions end; a context manager."""

    def __init__(self, config: IngestConfig, partitions: Sequence[int]) -> None:
        self._topic, self._partitions = config.topic, partitions
        client_file = Path(config.client_config) if config.client_config else None
        self._consumer = Consumer(
            client_config(config.bootstrap, client_file, **{"group.id": "redactory-lag"})
        )
        self._highs: dict[int, int] = {}
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

    def of(self, ends: Mapping[int, int]) -> int | None:
        """Messages not yet committed over the partitions in `ends`; None: not known yet."""
        highs = dict(self._highs)
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
            self._over.wait(EVERY_S)
