"""Kafka clients: their configuration, the topics they meet, and their errors in one sentence.

Light on purpose: the emitter imports it too.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline.errors import BrokerError, UsageError
from schemas import SCHEMA_HEADER

TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its cluster knows it; `topic_id` changes when it is deleted and made again."""

    name: str
    topic_id: str
    partitions: tuple[int, ...]


class ClientLog:
    """Takes librdkafka's own log lines: for debugging only, so that none reaches stderr unasked."""

    def log(self, level: int, message: str, *args: object) -> None:
        """Has the signature of `logging.Logger.log`; librdkafka's own level is not kept."""
        _log.debug(message, *args)


def client_config(bootstrap: str, config_file: Path | None = None, **extra: Any) -> dict[str, Any]:
    """Settings for any confluent-kafka client: the file's, then `extra`, then `bootstrap`.

    `config_file` holds librdkafka's names (`security.protocol`, `sasl.*`, `ssl.*`), either as
    `name=value` lines or, by its suffix, as a YAML or JSON mapping.  Raises UsageError for a file
    that cannot be read and for a setting that the client refuses; never shows a value.
    """
    settings = (read_settings(config_file) if config_file else {}) | extra
    refusal = _refusal(settings)
    if refusal:
        raise _refused_setting(settings, refusal, config_file)
    return {**settings, "bootstrap.servers": bootstrap, "logger": ClientLog()}


def describe_topic(
    bootstrap: str, topic: str, config_file: Path | None = None, *, timeout_s: float = TIMEOUT_S
) -> Topic:
    """The topic's identity and partitions; raises BrokerError if it is missing or out of reach."""

    def ask(admin: AdminClient) -> "Future[Any]":
        asked = TopicCollection([topic])
        return admin.describe_topics(asked, request_timeout=timeout_s)[topic]

    found = ask_broker(client_config(bootstrap, config_file), ask, topic)
    partitions = sorted(partition.id for partition in found.partitions)
    return Topic(topic, str(found.topic_id), tuple(partitions))


def ensure_topic(
    bootstrap: str,
    topic: str,
    config_file: Path | None = None,
    *,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> bool:
    """Makes the topic unless it is there; returns whether it was made.

    `settings` are topic settings (`retention.ms`, …); an existing topic is left as it is.
    """
    new = NewTopic(topic, num_partitions=partitions, config=dict(settings or {}))

    def ask(admin: AdminClient) -> "Future[Any]":
        return admin.create_topics([new], request_timeout=timeout_s)[topic]

    try:
        ask_broker(client_config(bootstrap, config_file), ask, topic)
    except BrokerError as error:
        if error.code != "topic-exists":
            raise
        return False
    return True


def watermarks(
    consumer: Consumer, topic: str, partition: int, *, timeout_s: float = TIMEOUT_S
) -> tuple[int, int]:
    """The oldest offset a partition still has and the one its next record will get."""
    try:
        found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
    except KafkaException as error:
        raise broker_error(error, topic) from None
    if found is None:
        raise _away()
    return found


def end_of_partition(
    bootstrap: str, topic: str, partition: int, config_file: Path | None = None
) -> int:
    """The offset that the next record of a partition will get; raises BrokerError."""
    settings = client_config(bootstrap, config_file, **{"group.id": "redactory-ends"})
    consumer = Consumer(settings)
    try:
        return watermarks(consumer, topic, partition)[1]
    finally:
        consumer.close()


def ask_broker(
    config: Mapping[str, Any],
    request: Callable[[AdminClient], "Future[_T]"],
    topic: str | None = None,
) -> _T:
    """Sends one admin request and waits for its answer; `topic` is what an error is about.

    Raises BrokerError: of the connection's own trouble, which says more than a time-out.
    """
    troubles: list[KafkaError] = []
    admin = AdminClient({**config, "error_cb": troubles.append})
    try:
        future = request(admin)
        while not future.done():
            admin.poll(0.05)
            for trouble in troubles:
                if trouble.code() in _DECISIVE:
                    raise broker_error(trouble, topic)
        return future.result()
    except KafkaException as error:
        if _cause(error).code() == KafkaError._TIMED_OUT and troubles:
            raise broker_error(troubles[0], topic) from None
        raise broker_error(error, topic) from None


def schema_header(headers: Iterable[tuple[str, Any]]) -> bytes | None:
    """What the header holds in which Confluent's clients name a schema; None if there is none."""
    for name, value in headers:
        if name == SCHEMA_HEADER:
            return value.encode() if isinstance(value, str) else value
    return None


def broker_error(error: KafkaError | KafkaException, topic: str | None = None) -> BrokerError:
    """The same error in one sentence with what to do; `code` is stable."""
    cause = error if isinstance(error, KafkaError) else _cause(error)
    about = f"topic {topic}" if topic else "topic"
    code, message, hint = _SENTENCES.get(
        cause.code(),
        ("broker-refused", f"the broker refused the request: {cause.name()}", _CHECK_BROKER),
    )
    return BrokerError(message.format(topic=about), code=code, hint=hint)


_CHECK_BROKER = "check --bootstrap, or start a local broker: redactory broker start"
_CHECK_LOGIN = "check the security settings in the client configuration file"

_AWAY = ("broker-away", "the broker does not answer", _CHECK_BROKER)
_MISSING = ("topic-missing", "the {topic} does not exist", "check --topic, or emit to it first")
_LOGIN = ("login-refused", "the broker refused the login", _CHECK_LOGIN)
_NOT_ALLOWED = ("not-allowed", "the broker does not let this user use the {topic}", _CHECK_LOGIN)

_SENTENCES: dict[int, tuple[str, str, str]] = {
    KafkaError._TRANSPORT: _AWAY,
    KafkaError._ALL_BROKERS_DOWN: _AWAY,
    KafkaError._TIMED_OUT: _AWAY,
    KafkaError.REQUEST_TIMED_OUT: _AWAY,
    # A broker that was just started says so until its partitions have a leader.
    KafkaError.NOT_LEADER_FOR_PARTITION: _AWAY,
    KafkaError.LEADER_NOT_AVAILABLE: _AWAY,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: _AWAY,
    KafkaError.COORDINATOR_NOT_AVAILABLE: _AWAY,
    KafkaError.BROKER_NOT_AVAILABLE: _AWAY,
    KafkaError._RESOLVE: (
        "broker-unknown",
        "the broker's host name cannot be resolved",
        "check --bootstrap",
    ),
    KafkaError._UNKNOWN_TOPIC: _MISSING,
    KafkaError._UNKNOWN_PARTITION: _MISSING,
    KafkaError.UNKNOWN_TOPIC_OR_PART: _MISSING,
    KafkaError.TOPIC_ALREADY_EXISTS: ("topic-exists", "the {topic} is already there", ""),
    KafkaError.TOPIC_EXCEPTION: (
        "topic-name",
        "the {topic} has a name that Kafka does not allow",
        "use letters, digits, dots, dashes and underscores",
    ),
    KafkaError._AUTHENTICATION: _LOGIN,
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    KafkaError._SSL: ("tls-failed", "the TLS handshake with the broker failed", _CHECK_LOGIN),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _NOT_ALLOWED,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _NOT_ALLOWED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _NOT_ALLOWED,
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "message-too-large",
        "a message is larger than the {topic} takes",
        "raise max.message.bytes of the topic and message.max.bytes of the client",
    ),
}

_DECISIVE = (KafkaError._AUTHENTICATION, KafkaError._SSL)
"""What a client reports on the side while the request itself only runs into its time-out."""


def _cause(error: KafkaException) -> KafkaError:
    cause = error.args[0]
    assert isinstance(cause, KafkaError)
    return cause


def _away() -> BrokerError:
    code, message, hint = _AWAY
    return BrokerError(message, code=code, hint=hint)


def read_settings(path: Path) -> dict[str, str]:
    """A client's settings: `name=value` lines or, by its suffix, a YAML or JSON mapping.

    Raises UsageError for a file that cannot be read; never shows a value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _bad_file(path, f"cannot be read ({type(error).__name__})") from None
    if path.suffix in (".yaml", ".yml", ".json"):
        return _parse_mapping(text, path)
    return _parse_properties(text, path)


def _parse_properties(text: str, path: Path) -> dict[str, str]:
    settings = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise _bad_file(path, f"has no `name=value` in line {number}")
        settings[name.strip()] = value.strip()
    return settings


def _parse_mapping(text: str, path: Path) -> dict[str, str]:
    try:
        found = yaml.safe_load(text)  # JSON is YAML
    except yaml.YAMLError:
        raise _bad_file(path, "is not valid YAML or JSON") from None
    if not isinstance(found, dict):
        raise _bad_file(path, "is not a mapping of names to values")
    for name, value in found.items():
        if not isinstance(value, str | int | float):
            raise _bad_file(path, f"gives `{name}` no plain value")
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in found.items()}


def _bad_file(path: Path, what: str) -> UsageError:
    return UsageError(
        f"the client configuration {path} {what}",
        code="client-config",
        hint="write the client's settings, one `name=value` a line",
    )


def _refusal(settings: Mapping[str, Any]) -> str:
    """What librdkafka says against the settings; its words may quote a value."""
    try:
        Producer({**settings, "logger": ClientLog()})  # knows the consumer's settings too
    except KafkaException as error:
        return _cause(error).str()
    return ""


def _is_refused(name: str, value: Any) -> bool:
    refusal = _refusal({name: value})
    # A client that cannot be made of one setting alone may well be made of all together.
    return bool(refusal) and not refusal.startswith("Failed to create")


def _refused_setting(settings: Mapping[str, Any], refusal: str, path: Path | None) -> UsageError:
    """Names the setting: the one refused by itself, else the one that librdkafka mentions."""
    name = next((name for name, value in settings.items() if _is_refused(name, value)), None)
    mentioned = re.search(r"\b(?:ssl|sasl)\.[a-z.]+[a-z]", refusal)
    if name is None and mentioned:
        name = mentioned[0]
    setting = f"the setting `{name}`" if name else "the settings"
    known = "does not know" if refusal.startswith("No such") else "does not accept"
    where = f" in {path}" if path else ""
    return UsageError(
        f"the Kafka client {known} {setting}{where}",
        code="client-config",
        hint="settings have librdkafka's names and values (sasl.username, not sasl.jaas.config)",
    )
