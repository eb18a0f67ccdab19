"""The lake against the topic, for as long as the topic still has the records.

Raw values are held in memory one batch at a time and go nowhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage
from duckdb import DuckDBPyConnection

from pipeline.errors import LogError
from pipeline.kafka import broker_error, client_config, describe_topic, watermarks
from pipeline.lake.history import History
from pipeline.lake.live import Lake
from pipeline.lake.proof.compare import differs
from pipeline.lake.proof.findings import Finding
from pipeline.lake.query import connect
from pipeline.lake.schemas import topic_decoder
from pipeline.slices import FROM_FILE, Gap, Message
from pipeline.unpacking import ENCODINGS, raw_message, unpacked_as_any
from schemas import DecodeError, Decoder

BATCH_RECORDS = 2_000
POLL_S = 1.0

Place = tuple[int, int]
"""An offset, and which of the events of its record."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the topics are: brokers, and a file with the client's settings, if any."""

    bootstrap: str
    client_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of one batch: how many records were compared, and what differed."""

    records: int
    findings: tuple[Finding, ...]


def against_topic(lake: Lake, source: Source) -> Iterator[Compared]:
    """Compares every record that the topics still have with its row; files are left out.

    Raises `LogError` for a topic that was deleted and made again, `BrokerError` if it is away.
    """
    with connect(lake) as session:
        for history in lake.histories:
            if history.position.topic_id.startswith(FROM_FILE):
                continue  # it was read from a file
            _check_identity(history, source)
            consumer = Consumer(_settings(source))
            try:
                decoder = topic_decoder(lake.store, history.topic)
                yield from _compare_partition(history, consumer, session, decoder)
            finally:
                consumer.close()


def _check_identity(history: History, source: Source) -> None:
    topic = describe_topic(source.bootstrap, history.topic, source.client_file)
    if history.position.topic_id not in ("", topic.topic_id):
        raise LogError(
            f"the topic {history.topic} was deleted and made again since it was read",
            code="topic-recreated",
            hint="its records are gone: verify without --against-topic",
        )


def _settings(source: Source) -> dict[str, Any]:
    return client_config(
        source.bootstrap,
        source.client_file,
        **{
            "group.id": "redactory-verify",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        },
    )


def _compare_partition(
    history: History, consumer: Consumer, session: DuckDBPyConnection, decoder: Decoder
) -> Iterator[Compared]:
    end = history.position.next_offset
    if end is None or history.start is None:
        return
    low, _ = watermarks(consumer, history.topic, history.partition)
    start = max(low, history.start)
    if start >= end:
        return
    consumer.assign([TopicPartition(history.topic, history.partition, start)])
    while True:
        batch = consumer.consume(BATCH_RECORDS, POLL_S)
        records = [message for message in batch if message.error() is None]
        inside = [message for message in records if _offset(message) < end]
        if inside:
            yield _compare_batch(history, inside, session, decoder)
        if len(inside) < len(records) or _is_at_end(batch, history.topic):
            return


def _is_at_end(batch: list[KafkaMessage], topic: str) -> bool:
    for message in batch:
        if (error := message.error()) is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise broker_error(error, topic)
            return True
    return False


def _compare_batch(
    history: History, records: list[KafkaMessage], session: DuckDBPyConnection, decoder: Decoder
) -> Compared:
    first, last = _offset(records[0]), _offset(records[-1])
    events = _rows(session, "stored_events", history, first, last)
    dead = _rows(session, "dead_letters", history, first, last)
    gaps = [gap for commit in history.commits for gap in commit.gaps if gap.end > first]
    several = {at for rows in (events, dead) for (at, _), row in rows.items() if _is_member(row)}
    findings = []
    for record in records:
        place = history.topic, history.partition, _offset(record)
        for message in _messages(history, record, has_several=_offset(record) in several):
            at = message.offset, message.member.index if message.member else 0
            detail = _difference(message, events.get(at), dead.get(at), gaps, decoder)
            if detail is not None:
                findings.append(Finding(*place, "topic-differs", detail=detail))
    return Compared(len(records), tuple(findings))


def _is_member(row: Mapping[str, Any]) -> bool:
    return row["record_index"] is not None


def _messages(history: History, record: KafkaMessage, *, has_several: bool) -> Sequence[Message]:
    """What a record came to; `has_several`: rows say that it holds several events."""
    raw = raw_message(record)
    if not has_several:
        return (raw,)
    # A retry may have read it otherwise than the slice.
    encodings = (*history.encodings_at(raw.offset), *ENCODINGS)
    return unpacked_as_any(raw, encodings, history.topic, history.partition)


def _difference(
    message: Message,
    event: Mapping[str, Any] | None,
    dead: Mapping[str, Any] | None,
    gaps: list[Gap],
    decoder: Decoder,
) -> str | None:
    """What is wrong about one message, in the name of a column; None if nothing is."""
    if event is not None:
        try:
            return differs(event, decoder.decode(message.value, message.schema_header))
        except DecodeError as error:
            return f"the record is no event ({error.code})"
    if dead is not None:
        return None if dead["length_bytes"] == len(message.record) else "length_bytes"
    if any(gap.start <= message.offset < gap.end for gap in gaps):
        return "declared a gap"
    return None  # refused as expired, or removed since


def _rows(
    session: DuckDBPyConnection, table: str, history: History, first: int, last: int
) -> dict[Place, Mapping[str, Any]]:
    sql = (
        f"SELECT * FROM {table} WHERE kafka_topic = $1 AND kafka_partition = $2 "
        "AND kafka_offset BETWEEN $3 AND $4"
    )
    found = session.sql(sql, params=[history.topic, history.partition, first, last])
    assert found is not None
    rows = found.to_arrow_table().to_pylist()
    return {(row["kafka_offset"], row["record_index"] or 0): row for row in rows}


def _offset(message: KafkaMessage) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
