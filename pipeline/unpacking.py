"""Records of a topic as messages: one that holds several events becomes so many.

Each of them is masked, stored or refused by itself, and all are accounted for at their record's
offset.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import Message as KafkaMessage

from pipeline.deadletters import NOT_OTLP
from pipeline.errors import InputError, UsageError
from pipeline.formats import AUTO
from pipeline.formats.otlp_items import proto_reader
from pipeline.formats.otlp_records import JSON, PROTO, events_in
from pipeline.kafka import schema_header
from pipeline.slices import Member, Message
from schemas import EncodeError, RunEvent, encode
from schemas.codec import MAX_SIZE_BYTES

MAX_RECORD_BYTES: Final = 4 * MAX_SIZE_BYTES

ENCODINGS: Final = (JSON, PROTO)
"""How records are read that hold several events."""

RUN_EVENT: Final = "run-event"


def encoding_of(format_name: str) -> str:
    """How the records of a topic of this format are read ("": each is an event).

    Raises UsageError for a format that no topic has, or whose package is not installed.
    """
    if format_name in (AUTO, RUN_EVENT):
        return ""
    if format_name not in ENCODINGS:
        raise UsageError(
            f"no topic is read as {format_name}",
            code="unknown-format",
            hint=f"choose one of {', '.join([RUN_EVENT, *ENCODINGS])}; files are read by --from",
        )
    if format_name == PROTO:
        proto_reader()  # what is missing is said at the start
    return format_name


def unpacked_as_any(
    record: Message, encodings: Iterable[str], topic: str, partition: int
) -> Sequence[Message]:
    """The messages that a record comes to, read in the first of these ways in which it holds
    several events; itself if there is none."""
    every = (unpacked(record, encoding, topic, partition) for encoding in encodings)
    return next((messages for messages in every if messages[0].member is not None), (record,))


def unpacked(record: Message, encoding: str, topic: str, partition: int) -> Sequence[Message]:
    """The messages that a record comes to: itself if it is one event, or cannot be read at all."""
    value = record.value
    if not encoding or not value:
        return (record,)
    if len(value) > MAX_RECORD_BYTES:
        return (record._replace(unfit="too-large"),)
    place = topic, partition, record.offset
    try:
        events = events_in(value, encoding, place, record.timestamp_us or 0)
    except InputError as error:
        return (record._replace(unfit=error.code),)
    return [
        _member(record, event, Member(index, len(events), value))
        for index, event in enumerate(events)
    ]


def raw_message(message: KafkaMessage) -> Message:
    """What a masker takes of a consumed record."""
    offset, value, key = message.offset(), message.value(), message.key()
    assert offset is not None
    timestamp_type, timestamp_ms = message.timestamp()
    headers = message.headers() or ()
    return Message(
        offset=offset,
        timestamp_us=timestamp_ms * 1000 if timestamp_type else None,
        key=key if isinstance(key, bytes) or key is None else key.encode(),
        value=value if isinstance(value, bytes) or value is None else value.encode(),
        header_names=tuple(name for name, _ in headers),
        schema_header=schema_header(headers),
    )


def _member(record: Message, event: RunEvent | None, member: Member) -> Message:
    record = record._replace(value=None, schema_header=None, member=member)
    if event is None:
        return record._replace(unfit=NOT_OTLP)
    try:
        # Its run is its key, whatever the exporter's was.
        return record._replace(key=event.run_id.encode(), value=encode(event))
    except EncodeError as error:
        return record._replace(unfit=error.code)
