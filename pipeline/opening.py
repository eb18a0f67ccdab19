"""Opens what a reader needs from an `IngestConfig`: consumer, logs, rules, keys, policy."""

import resource
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, KafkaError

from pipeline.config import IngestConfig
from pipeline.errors import LogError, UsageError
from pipeline.formats import Format
from pipeline.fromfiles import PARTITION, FileConsumer, FileSlices
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
from pipeline.lake.schemas import topic_decoder
from pipeline.lake.store import Store
from pipeline.masking import Masker
from pipeline.reader import Clock, FromTopic, MaskedSlices, Origin
from pipeline.registry.client import Registry, open_registry
from pipeline.retention.policy import Policy, load_policy, parse_policy
from pipeline.shadow import Shadow, shadow_of
from pipeline.slices import MaskedSlice
from pipeline.state.chain import read_chain
from pipeline.state.memories import Memories
from pipeline.state.open_runs import memory_entries
from pipeline.stopping import STOP
from pipeline.switching import SWITCH
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
from redactors.signatures import check_signature, signature_path
from schemas import Decoder

QUEUED_KBYTES = 32_768
"""What the consumer may hold ahead of us: the bound on raw bytes in memory."""


@dataclass(frozen=True, slots=True)
class OpenReader:
    """A running reader with what must be closed after it."""

    slices: Iterable[MaskedSlice]
    close: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Rules:
    """What masks and places: loaded once per process, before anything is read."""

    ruleset: Ruleset
    redactor: Redactor
    policy: Policy
    keys: KeyRing
    shadow: Shadow | None

    def masker(self, decoder: Decoder) -> Masker:
        """Masks under these rules."""
        return Masker(self.redactor, self.policy, self.shadow, decoder)


def open_rules(config: IngestConfig) -> Rules:
    """Loads ruleset, keys and policy; raises before a message is read if one cannot be used.

    What is opened again is loaded again only if the config names other rules.
    """
    if config.ruleset is not None:
        return _kept_rules(config.lake, config.ruleset, config.keys, config.policy)
    return _rules_in_files(
        config.rules, config.rules_public_key, config.rules_signature, config.keys, config.policy
    )


def rules_as_they_are(config: IngestConfig) -> Rules:
    """What `open_rules` gives, from the files as they are now."""
    _rules_in_files.cache_clear()
    return open_rules(replace(config, ruleset=None))


@lru_cache(maxsize=1)
def _rules_in_files(
    rules: str | None,
    public_key: str | None,
    signature: str | None,
    key_file: str | None,
    policy_file: str | None,
) -> Rules:
    return _rules(ruleset_in_files(rules, public_key, signature), key_file, policy_file)


def ruleset_in_files(rules: str | None, public_key: str | None, signature: str | None) -> Ruleset:
    """The rules in a file or folder (None: the built-in ones), if they are signed as they must be.

    Raises `RedactorsError`.
    """
    source = Path(rules) if rules else None

    def accept(document: bytes) -> None:
        if source is not None and public_key is not None:
            signed = Path(signature) if signature else signature_path(source)
            check_signature(document, signed, Path(public_key))

    return load_ruleset(source, accept=accept)


@lru_cache(maxsize=1)
def _kept_rules(lake: str, digest: str, key_file: str | None, policy_file: str | None) -> Rules:
    rules = _rules(
        parse_document(load_ruleset_document(Store.open(lake), digest)), key_file, policy_file
    )
    if rules.redactor.digest != digest:
        raise LogError(
            "the rules that the lake keeps have another digest than their name says",
            code="digest-conflict",
            hint="the log was changed, or this is another version of redactory",
        )
    return rules


def _rules(ruleset: Ruleset, key_file: str | None, policy_file: str | None) -> Rules:
    keys, policy = _keys_and_policy(key_file, policy_file)
    return Rules(ruleset, Redactor(ruleset, keys), policy, keys, shadow_of(ruleset, keys))


@cache
def _keys_and_policy(key_file: str | None, policy_file: str | None) -> tuple[KeyRing, Policy]:
    """As they were when this process began, however often its rules change."""
    keys, _ = load_or_create_keys(Path(key_file) if key_file else None)
    return keys, load_policy(Path(policy_file) if policy_file else None)


def keep_rules(store: Store, rules: Rules) -> None:
    """Keeps the texts of ruleset and policy in the lake, before any intent names their digests."""
    store_ruleset(store, rules.redactor.digest, ruleset_document(rules.ruleset))
    store_policy(store, rules.policy.digest, rules.policy.document)


def holding_rules(config: IngestConfig) -> IngestConfig:
    """`config` as workers get it: its rules as they are now are kept in the lake, and named."""
    rules = open_rules(config)
    keep_rules(Store.open(config.lake), rules)
    return replace(config, ruleset=rules.redactor.digest)


def check_start(config: IngestConfig) -> tuple[int, ...]:
    """The partitions, or the numbers of the files, that are to be read.

    By then rules, keys, policy, lake and topic are known to be usable, and the registry's settings.
    """
    check_signing(config)
    open_rules(config)
    Store.open(config.lake, create=True).check_writable()
    if config.files:
        return tuple(range(len(config.own_files)))
    if (registry := registry_of(config)) is not None:
        registry.check()
    topic = describe_topic(config.bootstrap, config.topic, config.client_file)
    return tuple(p for p in topic.partitions if config.takes(p))


def registry_of(config: IngestConfig) -> Registry | None:
    """The registry, if there is one; it is not asked anything yet."""
    return open_registry(config.registry, config.registry_file) if config.registry else None


def check_signing(config: IngestConfig) -> None:
    """Raises `UsageError` for options about signatures that do not go together."""
    if config.rules_signature is not None and config.rules_public_key is None:
        raise UsageError(
            "a signature says nothing without the key to check it with",
            code="no-public-key",
            hint="give --rules-public-key, too",
        )
    if config.rules_public_key is not None and config.rules is None:
        raise UsageError(
            "the built-in rules are not signed",
            code="nothing-signed",
            hint="give --rules, or leave --rules-public-key out",
        )


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
    if config.files:
        return _open_files(config, store, rules)
    topic = describe_topic(config.bootstrap, config.topic, config.client_file)
    partitions = [p for p in topic.partitions if config.takes(p)]
    if not partitions:
        raise UsageError(
            f"no partition of {config.topic} is left for worker {config.instance + 1} of "
            f"{config.instances}",
            code="no-partition",
            hint=f"the topic has {len(topic.partitions)}: use at most as many workers",
        )
    consumer = Consumer(consumer_settings(config))
    origin = FromTopic(topic.name, topic.topic_id)
    decoder = topic_decoder(store, topic.name, registry_of(config))
    slices = _slices(config, consumer, origin, partitions, store, rules, decoder)
    return OpenReader(slices, consumer.close)


def _open_files(config: IngestConfig, store: Store, rules: Rules) -> OpenReader:
    """A reader over this instance's files, each from where the lake's log of it ends."""

    def read(path: Path, kind: Format) -> Iterator[MaskedSlice]:
        with closing(FileConsumer(path, kind, rules.keys)) as file:
            topic = _topic_of(file, store, rules.redactor)
            if topic is not None:
                named = replace(config, topic=topic)
                # It answers to the calls that a reader makes.
                consumer = cast(Consumer, file)
                yield from _slices(named, consumer, file, [PARTITION], store, rules, Decoder())
            if file.failure is not None:
                raise file.failure

    return OpenReader(FileSlices(config.own_files, read, STOP.is_set), lambda: None)


def _topic_of(file: FileConsumer, store: Store, redactor: Redactor) -> str | None:
    """The topic that the file was read as, under whichever key; None if nothing stands in it."""

    def is_clean(name: str) -> bool:
        return not redactor.redact_text(name).redactions

    names = list(file.names(is_clean))
    known = (name for name in names if PartitionLog(store, name, PARTITION).position().topic_id)
    return next(known, names[0] if names else None)


def _slices(
    config: IngestConfig,
    consumer: Consumer,
    origin: Origin,
    partitions: Collection[int],
    store: Store,
    rules: Rules,
    decoder: Decoder,
) -> MaskedSlices:
    return MaskedSlices(
        config,
        consumer,
        {p: PartitionLog(store, config.topic, p) for p in partitions},
        origin,
        _masker_in_force(config, store, rules, decoder),
        _masker_for(store, rules, decoder),
        memories_at(store, config.topic, rules.keys),
        Clock(lambda: time.time_ns() // 1000, time.monotonic),
        STOP.is_set,
    )


def rules_for_reading(config: IngestConfig, store: Store) -> Rules:
    """The rules, their texts kept in the lake's log; to be called before anything raw is read."""
    # From here on raw payload is in memory: a core file would put it on a disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rules = open_rules(config)
    keep_rules(store, rules)
    return rules


def _masker_in_force(
    config: IngestConfig, store: Store, rules: Rules, decoder: Decoder
) -> Callable[[], Masker]:
    """Gives the masker to go on with: another one once this process was told of other rules."""
    masker = rules.masker(decoder)

    def in_force() -> Masker:
        nonlocal masker
        if SWITCH.ruleset not in (None, masker.redactor.digest):
            switched = rules_for_reading(replace(config, ruleset=SWITCH.ruleset), store)
            masker = switched.masker(decoder)
        return masker

    return in_force


def _masker_for(store: Store, rules: Rules, decoder: Decoder) -> Callable[[Intent], Masker]:
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
        redactor, shadow = rules.redactor, rules.shadow
        if (intent.ruleset, intent.key_id) != (redactor.digest, redactor.key_id):
            ruleset = parse_document(load_ruleset_document(store, intent.ruleset))
            keys = rules.keys.with_current(intent.key_id)
            redactor, shadow = Redactor(ruleset, keys), shadow_of(ruleset, keys)
        return Masker(redactor, policy, shadow, decoder)

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
