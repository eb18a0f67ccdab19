"""What the broker says: whether it answers, what it allows, and how the topic is set up."""

import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pipeline.config import IngestConfig
from pipeline.doctor.clock import newest_record
from pipeline.doctor.findings import Finding
from pipeline.errors import BrokerError
from pipeline.kafka import TIMEOUT_S, Topic, ask_broker, broker_error, client_config, describe_topic
from pipeline.lag import group_id
from pipeline.retention.topic import drift_of

ANSWER_S: Final = 5.0
"""A broker that does not answer within this time is away."""


def broker(config: IngestConfig) -> Iterator[Finding]:
    """Whether a broker answers and accepts the login."""

    def request(admin: Any) -> "Future[Any]":
        asked: Future[Any] = admin.describe_cluster(request_timeout=ANSWER_S)
        return asked

    cluster = ask_broker(client_config(config.bootstrap, config.client_file), request)
    yield Finding("ok", "broker", f"it answers, the cluster has {len(cluster.nodes)}")


def topic(config: IngestConfig) -> Iterator[Finding]:
    """Whether the topic is there, and may be seen."""
    found = _describe(config)
    yield Finding("ok", "topic", f"{config.topic} has {len(found.partitions)} partitions")


def partitions(config: IngestConfig, workers: int) -> Iterator[Finding]:
    """The topic's partitions against this instance and its workers."""
    yield judge_partitions(_describe(config).partitions, config, workers)


def judge_partitions(every: Sequence[int], config: IngestConfig, workers: int) -> Finding:
    """Each worker needs a partition of its own."""
    own = sum(map(config.takes, every))
    if not own:
        seen = f"of {len(every)} none is left for instance {config.instance}/{config.instances}"
        return Finding("fail", "partitions", seen, "start at most as many instances as partitions")
    if workers > own:
        advice = "use fewer workers, or give the topic more partitions while no run is open"
        return Finding("warn", "partitions", f"{own} for {workers} workers", advice)
    return Finding("ok", "partitions", f"{own} of {len(every)}, at most {-(-own // workers)} each")


def rights(config: IngestConfig) -> Iterator[Finding]:
    """What the broker allows this user to do with the topic and the consumer group."""

    def about_topic(admin: Any) -> "Future[Any]":
        names = TopicCollection([config.topic])
        asked: dict[str, Future[Any]] = admin.describe_topics(
            names, include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        return asked[config.topic]

    settings = client_config(config.bootstrap, config.client_file)
    allowed = ask_broker(settings, about_topic, config.topic).authorized_operations
    findings = judge_rights(config, _names(allowed), _names(_group_operations(config)))
    yield from findings or [Finding("ok", "rights", "the topic and the group may be used")]


def judge_rights(
    config: IngestConfig, on_topic: Collection[str], on_group: Collection[str]
) -> list[Finding]:
    """What is missing of the operations that an ingest needs, by their names in Kafka's ACLs."""
    found = []
    if "READ" not in on_topic:
        seen, advice = f"{config.topic} may not be read", f"allow READ on topic {config.topic}"
        found.append(Finding("fail", "rights", seen, advice))
    if config.delete_consumed and "DELETE" not in on_topic:
        seen, advice = "records may not be deleted", f"allow DELETE on topic {config.topic}"
        found.append(Finding("fail", "rights", seen, advice))
    if "READ" not in on_group:
        group = group_id(config.topic)
        seen, advice = "offsets may not be told to the group", f"allow READ on group {group}"
        found.append(Finding("warn", "rights", f"{seen}: lag monitors see none", advice))
    return found


def retention(config: IngestConfig) -> Iterator[Finding]:
    """The topic's settings against the lake's policy, as `redactory retention topic` sees them."""
    advice = f"redactory retention topic {config.topic} --bootstrap {config.bootstrap} --repair"
    drift = drift_of(config)
    for each in drift:
        seen = f"{each.setting} is {each.found}, the policy wants {each.wanted}: {each.why}"
        yield Finding("fail", "retention", seen, advice)
    if not drift:
        yield Finding("ok", "retention", "the topic keeps no record longer than the policy")


def clock(config: IngestConfig, now_s: float) -> Iterator[Finding]:
    """The newest time stamp of the topic against our clock; no record is read for it."""
    admin: Any = AdminClient(client_config(config.bootstrap, config.client_file))
    places = [TopicPartition(config.topic, p) for p in _describe(config).partitions]
    asked = admin.list_offsets(
        {place: OffsetSpec.max_timestamp() for place in places}, request_timeout=TIMEOUT_S
    )
    try:
        newest_ms = max(each.result().timestamp for each in asked.values())
    except KafkaException as error:
        raise broker_error(error, config.topic) from None
    if newest_ms >= 0:  # -1: the topic is empty
        yield newest_record(newest_ms / 1000, now_s)


def _describe(config: IngestConfig) -> Topic:
    return describe_topic(config.bootstrap, config.topic, config.client_file)


def _group_operations(config: IngestConfig) -> Collection[Any]:
    group = group_id(config.topic)

    def request(admin: Any) -> "Future[Any]":
        asked: dict[str, Future[Any]] = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=TIMEOUT_S
        )
        return asked[group]

    settings = client_config(config.bootstrap, config.client_file)
    ends_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask_broker(settings, request, config.topic).authorized_operations or ()
        except BrokerError as error:
            if error.code == "not-allowed":  # who may not see the group may not use it either
                return ()
            if time.monotonic() >= ends_s:
                raise
        time.sleep(0.2)  # the first to ask for a group waits until its coordinator is ready


def _names(operations: Collection[Any] | None) -> frozenset[str]:
    return frozenset(each.name for each in operations or ())
