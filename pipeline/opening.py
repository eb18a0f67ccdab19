"""Opens what a reader needs from an `IngestConfig`: consumer, logs, rules, keys, policy."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from confluent_kafka import Consumer, KafkaError

from pipeline.config import IngestConfig
from pipeline.errors import LogError, UsageError
from pipeline.kafka import client_config, describe_topic, watermarks
from pipeline.lag import group_id
from pipeline.lake.documents import (
    load_policy_document,
    load_ruleset_document,
    store_policy,
    store_ruleset,
)
from pipeline.lake.entries import Intent
from pipeline.lake.log import PartitionLog, Position
from pipeline.lake.store import Store
from pipeline.masking import Masker
from pipeline.reader import Clock, MaskedSlices
from pipeline.retention.policy import Policy, load_policy, parse_policy
from pipeline.state.chain import read_chain
from pipeline.state.memories import Memories
from pipeline.state.open_runs import memory_entries
from pipeline.stopping import STOP
from pipeline.telling import tell
from redactors import (
    KeyRing,
    Redactor,
    Ruleset,
    load_or_create_keys,
    load_ruleset,
    parse_document,
    ruleset_document,
)

QUEUED_KBYTES = 32_768
"""What the consumer may hold ahead of us: the bound on raw bytes in memory."""


@dataclass(frozen=True, slots=True)
class OpenReader:
    """A running reader with what must be closed after it."""

    slices: MaskedSlices
    consumer: Consumer

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True, slots=True)
class Rules:
    """What masks and places: loaded once per process, before anything is read."""

    ruleset: Ruleset
    redactor: Redactor
    policy: Policy
    keys: KeyRing


def open_rules(config: IngestConfig) -> Rules:
    """Loads ruleset, keys and policy; raises before a message is read if one cannot be used."""
    return _open_rules(config.rules, config.keys, config.policy)


@cache
def _open_rules(rules: str | None, key_file: str | None, policy_file: str | None) -> Rules:
    ruleset = load_ruleset(Path(rules) if rules else None)
    keys, _ = load_or_create_keys(Path(key_file) if key_file else None)
    policy = load_policy(Path(policy_file) if policy_file else None)
    return Rules(ruleset, Redactor(ruleset, keys), policy, keys)


def check_start(config: IngestConfig) -> tuple[int, ...]:
    """The partitions to read, once rules, keys, policy, lake and topic are known to be usable."""
    open_rules(config)
    Store.open(config.lake, create=True).check_writable()
    topic = describe_topic(config.bootstrap, config.topic, config.client_file)
    return tuple(p for p in topic.partitions if config.takes(p))


def partition_ends(config: IngestConfig) -> dict[int, int]:
    """The offset after the last record of each partition that this instance reads."""
    topic = describe_topic(config.bootstrap, config.topic, config.client_file)
    settings = client_config(config.bootstrap, config.client_file, **{"group.id": "redactory-ends"})
    consumer = Consumer(settings)
    try:
        partitions = [p for p in topic.partitions if config.takes(p)]
        return {p: watermarks(consumer, config.topic, p)[1] for p in partitions}
    finally:
        consumer.close()


def open_reader(config: IngestConfig) -> OpenReader:
    """A reader over this instance's partitions, from where the lake's log ends."""
    store = Store.open(config.lake)
    rules = rules_for_reading(config, store)
    topic = describe_topic(config.bootstrap, config.topic, config.client_file)
    partitions = [p for p in topic.partitions if config.takes(p)]
    if not partitions:
        raise UsageError(
            f"no partition of {config.topic} is left for worker {config.instance + 1} of "
            f"{config.instances}",
            code="no-partition",
            hint=f"the topic has {len(topic.partitions)}: use at most as many workers",
        )
    logs = {p: PartitionLog(store, config.topic, p) for p in partitions}
    consumer = Consumer(consumer_settings(config))
    slices = MaskedSlices(
        config,
        consumer,
        logs,
        topic.topic_id,
        Masker(rules.redactor, rules.policy),
        _masker_for(store, rules),
        memories_at(store, config.topic, rules.keys),
        Clock(lambda: time.time_ns() // 1000, time.monotonic),
        STOP.is_set,
    )
    return OpenReader(slices, consumer)


def rules_for_reading(config: IngestConfig, store: Store) -> Rules:
    """The rules, their texts kept in the lake's log; to be called before anything raw is read."""
    # From here on raw payload is in memory: a core file would put it on a disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rules = open_rules(config)
    store_ruleset(store, rules.redactor.digest, ruleset_document(rules.ruleset))
    store_policy(store, rules.policy.digest, rules.policy.document)
    return rules


def _masker_for(store: Store, rules: Rules) -> Callable[[Intent], Masker]:
    """Makes the masker that an earlier writer used, from the documents kept in the log."""

    def build(intent: Intent) -> Masker:
        if intent.key_id not in rules.keys.keys:
            raise LogError(
                f"slice {intent.number} was begun under key {intent.key_id}, which is not in the "
                "key ring",
                code="key-gone",
                hint="add the key to the ring, or give the slice up: redactory log supersede",
            )
        policy = parse_policy(load_policy_document(store, intent.policy))
        redactor = rules.redactor
        if (intent.ruleset, intent.key_id) != (redactor.digest, redactor.key_id):
            ruleset = parse_document(load_ruleset_document(store, intent.ruleset))
            redactor = Redactor(ruleset, rules.keys.with_current(intent.key_id))
        return Masker(redactor, policy)

    return build


def memories_at(store: Store, topic: str, keys: KeyRing) -> Callable[[int, Position], Memories]:
    """Brings back what the runs of a partition had shown at a position of its log."""

    def restore(partition: int, position: Position) -> Memories:
        digest = position.last_commit.state_digest if position.last_commit else None
        documents = read_chain(store, topic, partition, digest, memories_only=True)
        return Memories(keys, memory_entries(documents))

    return restore


def _tell_trouble(error: KafkaError) -> None:
    """The client connects again by itself; whoever watches is told what it waits for."""
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        tell("waiting", what="the broker (it does not answer)")


def consumer_settings(config: IngestConfig) -> dict[str, object]:
    """The settings of a consumer that reads what is there and loses nothing in silence."""
    return client_config(
        config.bootstrap,
        config.client_file,
        **{
            "group.id": group_id(config.topic),
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": QUEUED_KBYTES,
            "fetch.message.max.bytes": 8 << 20,
            "error_cb": _tell_trouble,
        },
    )
