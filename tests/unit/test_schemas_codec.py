"""Decoding: each way a value can be wrong has a code, and nothing of the value is repeated."""

import json
from dataclasses import replace
from io import BytesIO
from traceback import format_exception
from typing import Any

import pytest
from fastavro import schemaless_writer

from schemas import (
    DECODE_CODES,
    KINDS,
    MAX_SIZE_BYTES,
    DecodeError,
    Decoder,
    EncodeError,
    Producer,
    RunEvent,
    avro,
    decode,
    encode,
    encode_json,
)

CANARY = "canary-5317"
EVENT = RunEvent(
    event_id="event-1",
    run_id="run-1",
    sequence=4,
    occurred_at=1_772_366_400_000_000,
    kind="message",
    body='{"role": "user",  "content": "1.10"}',
    producer=Producer("agent", "1"),
)
REQUIRED: dict[str, Any] = {
    "event_id": "event-1",
    "run_id": "run-1",
    "sequence": 0,
    "occurred_at": 0,
    "kind": "message",
    "body": "{}",
}


def in_json(**changes: Any) -> bytes:
    fields = REQUIRED | changes
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


REGISTRYS = {"incompatible-schema", "unknown-schema-id"}
VALUE = encode(EVENT)
BAD_VALUES: dict[str, tuple[bytes | None, str]] = {
    "null": (None, "empty-value"),
    "empty": (b"", "empty-value"),
    "five-megabytes": (b"{" + b" " * 5_000_000, "too-large"),
    "plain-text": (CANARY.encode(), "unknown-encoding"),
    "a-json-list": (b"[1]", "unknown-encoding"),
    "a-byte-order-mark": (b"\xef\xbb\xbf" + in_json(), "unknown-encoding"),
    "avro-header-only": (VALUE[:2], "truncated-avro"),
    "avro-cut-in-the-fingerprint": (VALUE[:7], "truncated-avro"),
    "avro-cut-in-the-record": (VALUE[:-3], "truncated-avro"),
    "avro-with-a-tail": (VALUE + b"\x00", "trailing-bytes"),
    "avro-of-another-schema": (VALUE[:2] + b"\x01" * 8 + VALUE[10:], "unknown-fingerprint"),
    "avro-text-not-utf8": (VALUE.replace(b"event-1", b"event-\xff"), "invalid-utf8"),
    "avro-without-branch": (VALUE.replace(b"run-1\x00", b"run-1\x08"), "malformed-avro"),
    "confluent-without-registry": (b"\x00\x00\x00\x00\x07" + VALUE[10:], "no-registry"),
    "confluent-cut-in-the-id": (b"\x00\x00\x00", "truncated-avro"),
    "json-cut": (in_json()[:-1], "invalid-json"),
    "json-with-a-tail": (in_json() + b"x", "invalid-json"),
    "json-not-utf8": (in_json().replace(b"run-1", b"run-\xff"), "invalid-utf8"),
    "json-key-twice": (b'{"run_id": "a", ' + in_json()[1:], "duplicate-keys"),
    "json-key-twice-inside": (
        in_json(producer={"name": "a"}).replace(b'"name"', b'"name": "b", "name"'),
        "duplicate-keys",
    ),
    "json-half-a-surrogate": (in_json(name="\ud83d"), "lone-surrogate"),
    "json-nested-without-end": (in_json()[:-1] + b', "x": ' + b"[" * 200_000, "too-deep"),
    "run-id-missing": (in_json(run_id=...), "not-an-event"),
    "run-id-null": (in_json(run_id=None), "not-an-event"),
    "body-an-object": (in_json(body={}), "not-an-event"),
    "sequence-a-text": (in_json(sequence="1"), "not-an-event"),
    "sequence-true": (in_json(sequence=True), "not-an-event"),
    "sequence-with-a-fraction": (in_json(sequence=1.0), "not-an-event"),
    "sequence-negative": (in_json(sequence=-1), "out-of-range"),
    "sequence-of-65-bits": (in_json(sequence=2**64), "out-of-range"),
    "attempt-of-33-bits": (in_json(attempt=2**32), "out-of-range"),
    "time-after-the-year-9999": (in_json(occurred_at=253_402_300_800_000_000), "out-of-range"),
    "subjects-a-text": (in_json(subjects="a"), "not-an-event"),
    "subjects-of-numbers": (in_json(subjects=[1]), "not-an-event"),
    "producer-a-text": (in_json(producer="a"), "not-an-event"),
    "redactions-an-object": (in_json(redactions={}), "not-an-event"),
    "redaction-without-a-rule": (in_json(redactions=[{"path": "/a"}]), "not-an-event"),
    "body-empty": (in_json(body=""), "body-not-json"),
    "body-prose": (in_json(body=CANARY), "body-not-json"),
    "body-two-values": (in_json(body="{} {}"), "body-not-json"),
    "body-nan": (in_json(body='{"a": NaN}'), "body-not-json"),
    "body-nested-without-end": (in_json(body="[" * 200_000), "too-deep"),
}


@pytest.mark.parametrize(("value", "code"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_a_bad_value_has_its_code_and_nothing_of_it_is_told(value: bytes | None, code: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(value)
    assert caught.value.code == code
    assert str(caught.value) == f"not a run event: {DECODE_CODES[code]} ({code})"
    shown = "".join(format_exception(caught.value))
    assert CANARY not in shown and "run-1" not in shown


def test_every_code_but_the_registrys_is_shown_by_a_bad_value() -> None:
    assert {code for _, code in BAD_VALUES.values()} == set(DECODE_CODES) - REGISTRYS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_both_encodings(kind: str) -> None:
    event = replace(EVENT, kind=kind)
    assert decode(encode(event)) == event
    assert decode(encode_json(event)) == event


def test_a_json_event_may_leave_out_what_has_a_default() -> None:
    event = decode(in_json())
    assert (event.attempt, event.producer, event.subjects) == (1, Producer(), ())
    assert event.captured_at is None and event.redactions == ()


def test_white_space_before_a_json_object_is_json() -> None:
    assert decode(b"\r\n\t " + in_json()) == decode(in_json())


def test_an_unknown_kind_is_other_and_keeps_its_name() -> None:
    event = decode(in_json(kind="agent.napped"))
    assert (event.kind, event.kind_name) == ("other", "agent.napped")
    assert decode(encode(event)) == event
    assert decode(encode(replace(EVENT, kind="agent.napped"))).kind_name == "agent.napped"


UNKNOWN_FIELDS = {
    "an-object": (' {"a": 1.10} ', ' {"a": 1.10,"_unknown_fields":{"mood":"fine"}}'),
    "an-empty-object": ("{ }", '{ "_unknown_fields":{"mood":"fine"}}'),
    "a-list": ("[1.10]", '{"_body":[1.10],"_unknown_fields":{"mood":"fine"}}'),
    "the-key-is-taken": (
        '{"_unknown_fields":0}',
        '{"_body":{"_unknown_fields":0},"_unknown_fields":{"mood":"fine"}}',
    ),
}


@pytest.mark.parametrize(("body", "stored"), UNKNOWN_FIELDS.values(), ids=UNKNOWN_FIELDS.keys())
def test_unknown_fields_are_kept_in_the_body_and_the_rest_of_it_stays(
    body: str, stored: str
) -> None:
    event = decode(in_json(body=body, mood="fine"))
    assert event.body == stored
    json.loads(event.body)


def test_unknown_fields_of_the_producer_and_of_redactions_are_kept_too() -> None:
    redaction = {"path": "/a", "rule": "r", "label": "L", "action": "mask", "score": 0.5}
    event = decode(in_json(producer={"name": "a", "team": "b"}, redactions=[redaction]))
    assert event.producer == Producer("a")
    assert json.loads(event.body)["_unknown_fields"] == {
        "producer": {"team": "b"},
        "redactions": [{"score": 0.5}],
    }


def test_without_unknown_fields_a_body_is_byte_for_byte_what_arrived() -> None:
    body = ' {"a" : 1.10, "b":1e400, "a":"\\ud83d"}\n'
    assert decode(in_json(body=body)).body == body
    assert decode(encode(replace(EVENT, body=body))).body == body


def test_a_schema_of_tomorrow_from_a_registry_is_read_and_its_fields_are_kept() -> None:
    newer = json.loads(json.dumps(avro.current()))
    newer["fields"].append({"name": "mood", "type": ["null", "bytes"], "default": None})
    _kind_of(newer)["symbols"].append("agent_napped")
    fields = REQUIRED | {"kind": "agent_napped", "mood": b"\xff"}
    event = Decoder({7: newer}.get).decode(_confluent(7, newer, fields))
    assert (event.kind, event.kind_name) == ("other", "agent_napped")
    assert event.body == '{"_unknown_fields":{"mood":"ÿ"}}'


def test_a_schema_of_something_else_from_a_registry_is_refused() -> None:
    stranger = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    with pytest.raises(DecodeError) as caught:
        Decoder({7: stranger}.get).decode(_confluent(7, stranger, {"id": CANARY}))
    assert caught.value.code == "incompatible-schema"


def test_an_outage_of_the_registry_is_no_fault_of_the_value() -> None:
    def away(schema_id: int) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        Decoder(away).decode(b"\x00\x00\x00\x00\x07")


def test_a_registry_is_asked_once_for_each_schema() -> None:
    asked: list[int] = []

    def resolve(schema_id: int) -> dict[str, Any]:
        asked.append(schema_id)
        return avro.current()

    decoder = Decoder(resolve)
    value = _confluent(7, avro.current(), REQUIRED)
    assert decoder.decode(value) == decoder.decode(value)
    assert asked == [7]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"body": CANARY}, "body-not-json"),
        ({"body": '"' + "x" * MAX_SIZE_BYTES + '"'}, "too-large"),
        ({"run_id": "\ud83d"}, "lone-surrogate"),
        ({"sequence": -1}, "out-of-range"),
        ({"attempt": "1"}, "not-an-event"),
    ],
)
def test_an_event_that_no_reader_would_take_is_refused_where_it_is_made(
    changes: dict[str, Any], code: str
) -> None:
    for write in (encode, encode_json):
        with pytest.raises(EncodeError) as caught:
            write(replace(EVENT, **changes))
        assert caught.value.code == code
        assert CANARY not in str(caught.value)


def _kind_of(schema: dict[str, Any]) -> dict[str, Any]:
    kind: dict[str, Any] = next(f["type"] for f in schema["fields"] if f["name"] == "kind")
    return kind


def _confluent(schema_id: int, schema: Any, fields: dict[str, Any]) -> bytes:
    out = BytesIO()
    out.write(b"\x00" + schema_id.to_bytes(4, "big"))
    schemaless_writer(out, avro.readable(schema), fields)
    return out.getvalue()
