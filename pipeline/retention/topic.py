"""The raw topic is a copy too: what its settings allow, and removing what the lake has read."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from pipeline.config import IngestConfig
from pipeline.kafka import TIMEOUT_S, broker_error, client_config, describe_topic
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.retention.policy import AHEAD_MAX_US, Policy, load_policy

_CLEANUP: Final = "cleanup.policy"
_RETENTION: Final = "retention.ms"
_SEGMENT: Final = "segment.ms"
_AHEAD: Final = "message.timestamp.after.max.ms"


@dataclass(frozen=True, slots=True)
class Drift:
    """A topic setting under which a raw record can outlive the rows made from it."""

    setting: str
    found: str
    wanted: str
    why: str


def find_drift(settings: Mapping[str, str], policy: Policy) -> tuple[Drift, ...]:
    """What is wrong with a topic's settings, by the shortest-lived class of the policy.

    Kafka deletes whole segments, so a record may stay `retention.ms` and then `segment.ms`.
    """
    limit_ms = min(each.lifetime_us for each in policy.classes.values()) // 1_000
    drift: list[Drift] = []
    if settings[_CLEANUP] != "delete":
        why = "compaction keeps the last record of every run for ever"
        drift.append(Drift(_CLEANUP, settings[_CLEANUP], "delete", why))
    segment_ms, retention_ms = int(settings[_SEGMENT]), int(settings[_RETENTION])
    if retention_ms < 0 or retention_ms + segment_ms > limit_ms:
        why = "a raw record may outlive the shortest-lived row"
        roll_ms = min(segment_ms, limit_ms // 4)
        if roll_ms != segment_ms:
            drift.append(Drift(_SEGMENT, str(segment_ms), str(roll_ms), why))
        keep_ms = limit_ms - roll_ms
        if not 0 <= retention_ms <= keep_ms:
            drift.append(Drift(_RETENTION, str(retention_ms), str(keep_ms), why))
    ahead_ms = AHEAD_MAX_US // 1_000
    if int(settings.get(_AHEAD, ahead_ms)) > ahead_ms:
        why = "a record from the future would keep its segment until then"
        drift.append(Drift(_AHEAD, settings[_AHEAD], str(ahead_ms), why))
    return tuple(drift)


def open_topic(config: IngestConfig) -> "RawTopic":
    """The topic that an ingest reads."""
    return RawTopic(config.bootstrap, config.topic, config.client_file)


def drift_of(config: IngestConfig) -> tuple[Drift, ...]:
    """What is wrong with the settings of the topic that an ingest reads, by its policy.

    Files have no settings: how long they stay is for their owner to see to.
    """
    if config.files:
        return ()
    policy = load_policy(Path(config.policy) if config.policy else None)
    return find_drift(open_topic(config).settings(), policy)


class RawTopic:
    """A topic at its broker; every method raises `BrokerError` if the broker does not do it."""

    def __init__(self, bootstrap: str, topic: str, client_file: Path | None = None) -> None:
        self._bootstrap, self._topic, self._client_file = bootstrap, topic, client_file
        self._admin = AdminClient(client_config(bootstrap, client_file))

    def settings(self) -> dict[str, str]:
        """The topic's settings in force, by name."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        asked = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)
        return {name: entry.value for name, entry in self._wait(asked[resource]).items()}

    def repair(self, drift: tuple[Drift, ...]) -> None:
        """Sets what `find_drift` wants; nothing else is changed."""
        entries = [
            ConfigEntry(each.setting, each.wanted, incremental_operation=AlterConfigOpType.SET)
            for each in drift
        ]
        resource = ConfigResource(ResourceType.TOPIC, self._topic, incremental_configs=entries)
        asked = self._admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S)
        self._wait(asked[resource])

    def delete_before(self, partition: int, offset: int) -> None:
        """Deletes the records of a partition below `offset`; those that are gone are no error."""
        at = TopicPartition(self._topic, partition, offset)
        asked = self._admin.delete_records([at], request_timeout=TIMEOUT_S)
        self._wait(asked[at])

    def delete_consumed(self, store: Store) -> None:
        """Deletes what the lake has committed: a crash after the commit may have left it.

        A topic that was made again under the same name is left alone.
        """
        topic = describe_topic(self._bootstrap, self._topic, self._client_file)
        for partition in topic.partitions:
            position = PartitionLog(store, self._topic, partition).position()
            if position.next_offset is not None and position.topic_id == topic.topic_id:
                self.delete_before(partition, position.next_offset)

    def _wait(self, asked: "Future[Any]") -> Any:
        try:
            return asked.result()
        except KafkaException as error:
            raise broker_error(error, self._topic) from None
