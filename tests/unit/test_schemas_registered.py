"""Values that name a schema of a registry: which are read, how, and by which schemas none is."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from fastavro import schemaless_writer

from schemas import DecodeError, Decoder, Foreign, RunEvent, avro, decode, encode, encode_json

EVENT = RunEvent(
    event_id="event-1",
    run_id="run-1",
    sequence=4,
    occurred_at=1_772_366_400_000_000,
    kind="message",
    body='{"n":1}',
)
BARE = encode(EVENT)[10:]
GUID = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")


def _framed(schema_id: int, data: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + data


def _code(schema: Any, value: bytes = _framed(7, BARE), header: bytes | None = None) -> str:
    with pytest.raises(DecodeError) as caught:
        Decoder({7: schema}.get).decode(value, header)
    return caught.value.code


def _with(*fields: Any) -> dict[str, Any]:
    return {**avro.current(), "fields": [*avro.current()["fields"], *fields]}


def test_what_is_encoded_with_an_id_is_read_by_the_schema_of_that_id() -> None:
    value = encode(EVENT, 7)
    assert value == _framed(7, BARE)
    assert Decoder({7: avro.current()}.get).decode(value) == EVENT


def test_json_after_the_framing_is_read_as_any_json_is() -> None:
    decoder = Decoder({7: Foreign.JSON}.get)
    assert decoder.decode(_framed(7, encode_json(EVENT))) == EVENT
    told = json.dumps(json.loads(encode_json(EVENT)) | {"mood": "fine"}).encode()
    body = '{"n":1,"_unknown_fields":{"mood":"fine"}}'
    assert decoder.decode(_framed(7, told)) == replace(EVENT, body=body)
    assert _code(Foreign.JSON, _framed(7, b'{"a":1,"a":2}')) == "duplicate-keys"
    assert _code(Foreign.JSON, _framed(7, b"[]")) == "not-an-event"


@pytest.mark.parametrize("header", [_framed(7, b""), b"\x01" + GUID.bytes], ids=["id", "guid"])
def test_a_header_may_name_the_schema_of_a_bare_value(header: bytes) -> None:
    decoder = Decoder({7: avro.current(), GUID: avro.current()}.get)
    assert decoder.decode(BARE, header) == EVENT
    as_json = Decoder({7: Foreign.JSON, GUID: Foreign.JSON}.get)
    assert as_json.decode(encode_json(EVENT), header) == EVENT


def test_without_a_registry_a_header_says_nothing() -> None:
    header = _framed(7, b"")
    assert Decoder().decode(encode(EVENT), header) == decode(encode_json(EVENT)) == EVENT
    with pytest.raises(DecodeError) as caught:
        Decoder().decode(BARE, header)
    assert caught.value.code == "no-registry"


@pytest.mark.parametrize("header", [b"", b"\x00\x00", b"\x01" + b"7" * 15, b"7"])
def test_a_header_that_is_no_id_names_no_schema(header: bytes) -> None:
    assert _code(avro.current(), BARE, header) == "unknown-schema-id"


def test_an_older_version_gets_our_defaults_and_smaller_numbers_are_widened() -> None:
    required = ("event_id", "run_id", "sequence", "occurred_at", "kind", "body")
    fields = [field for field in avro.current()["fields"] if field["name"] in required]
    fields = [{**f, "type": "int"} if f["name"] == "sequence" else f for f in fields]
    older = {**avro.current(), "fields": fields}
    out = BytesIO()
    told = {name: getattr(EVENT, name) for name in required}
    schemaless_writer(out, avro.readable(older), told)
    assert Decoder({7: older}.get).decode(_framed(7, out.getvalue())) == EVENT


def test_what_reading_needs_of_a_schema_is_all_that_is_kept_of_it() -> None:
    essential = avro.essential(_with({"name": "mood", "type": "string", "default": "a secret"}))
    assert "a secret" not in json.dumps(essential) and "doc" not in json.dumps(essential)
    assert avro.fingerprint(essential) == avro.fingerprint(
        _with({"name": "mood", "type": "string"})
    )
    assert Decoder({7: avro.essential(avro.current())}.get).decode(encode(EVENT, 7)) == EVENT


def _nested(type_: Callable[[Any], Any], depth: int) -> Any:
    schema: Any = "string"
    for _ in range(depth):
        schema = type_(schema)
    return schema


ITSELF = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
NOTHING = {"type": "record", "name": "N", "fields": []}
UNBOUNDED = {
    "a type within itself": ITSELF,
    "a type within itself by way of a list": {
        "type": "record",
        "name": "T",
        "fields": [{"name": "children", "type": {"type": "array", "items": "T"}}],
    },
    "a list of null": {"type": "array", "items": "null"},
    "a list of empty records": {"type": "array", "items": NOTHING},
    "a list of bytes of no length": {
        "type": "array",
        "items": {"type": "fixed", "name": "F", "size": 0},
    },
    "a list of records with a field of nothing": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": NOTHING}],
        },
    },
    "a map to nothing": {"type": "map", "values": NOTHING},
    "types within each other without end": _nested(lambda s: {"type": "array", "items": s}, 200),
}


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_a_schema_whose_data_nothing_bounds_is_refused_before_it_is_read(kind: str) -> None:
    # As data: so many levels that reading them would end the process.
    value = _framed(7, BARE + b"\x02" * 1_000_000)
    field = {"name": "extra", "type": UNBOUNDED[kind]}
    assert _code(_with(field), value) == "incompatible-schema"


def test_what_is_bounded_is_read_also_where_a_type_is_used_twice() -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    more = [
        {"name": "from", "type": place},
        {"name": "to", "type": {"type": "array", "items": ["null", "Place"]}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "void", "type": "null"},
    ]
    newer, out = _with(*more), BytesIO()
    told: dict[str, Any] = {
        "from": {"city": "Oslo"},
        "to": [None, {"city": "Rome"}],
        "tags": {"a": ["b"]},
        "void": None,
    }
    raw = Decoder({7: avro.current()}.get).decode(encode(EVENT, 7))
    fields = json.loads(encode_json(raw)) | {"attempt": 1, "producer": {}, "kind": "message"}
    schemaless_writer(out, avro.readable(newer), fields | told)
    event = Decoder({7: newer}.get).decode(_framed(7, out.getvalue()))
    assert json.loads(event.body)["_unknown_fields"] == told


@pytest.mark.parametrize(
    "schema",
    [
        Foreign.OTHER,
        "string",
        "no.such.type",
        {"type": "record"},
        {"type": "record", "name": "RunEvent", "fields": [{"name": "event_id"}]},
        _with({"name": "mood", "type": "no.such.type"}),
        _with({"name": "mood", "type": {"type": "enum", "name": "Mood"}}),
        {},
    ],
)
def test_what_is_no_schema_of_a_run_event_has_its_code(schema: Any) -> None:
    assert _code(schema) == "incompatible-schema"
