"""The wire format must not change by accident: what was ever written must stay readable."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from schemas import DeclaredRedaction, Producer, RunEvent, avro, decode, encode, encode_json

GOLDEN = Path(__file__).parent / "wire"
VECTORS: list[dict[str, Any]] = json.loads((GOLDEN / "vectors.json").read_text(encoding="utf-8"))


def event_from(fields: dict[str, Any]) -> RunEvent:
    redactions = [
        DeclaredRedaction(**item | {"layers": tuple(item["layers"])})
        for item in fields["redactions"]
    ]
    return RunEvent(
        **fields
        | {
            "producer": Producer(**fields["producer"]),
            "subjects": tuple(fields["subjects"]),
            "redactions": tuple(redactions),
        }
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_a_recorded_value_reads_and_writes_as_it_did(vector: dict[str, Any]) -> None:
    event = event_from(vector["event"])
    assert decode(bytes.fromhex(vector["single_object"])) == event
    assert decode(vector["json"].encode()) == event
    assert encode(event).hex() == vector["single_object"]
    assert encode_json(event).decode() == vector["json"]


def test_published_schemas_are_frozen() -> None:
    """A published schema never changes: a change is a new file and a new line in the list."""
    published = {
        name: digest
        for digest, name in map(
            str.split, (GOLDEN / "history.sha256").read_text(encoding="utf-8").splitlines()
        )
    }
    history = files("schemas").joinpath("history")
    found = {
        entry.name: hashlib.sha256(entry.read_bytes()).hexdigest()
        for entry in history.iterdir()
        if entry.name.endswith(".avsc")
    }
    assert found == published


def test_the_current_schema_is_the_last_published_one() -> None:
    assert avro.history()[-1] == avro.current()


def test_the_fingerprint_is_the_one_of_the_specification() -> None:
    """CRC-64-AVRO as the Avro specification gives it, little-endian."""
    assert avro.fingerprint("null") == (0x63DD24E7CC258F8A).to_bytes(8, "little")
    assert avro.fingerprint("int") == _rabin(b'"int"').to_bytes(8, "little")
    assert avro.fingerprint(avro.current()) == bytes.fromhex(VECTORS[0]["single_object"])[2:10]


def _rabin(data: bytes) -> int:
    """The specification's algorithm, bit by bit."""
    empty = 0xC15D213AA4D7A795
    value = empty
    for byte in data:
        low = (value ^ byte) & 0xFF
        for _ in range(8):
            low = (low >> 1) ^ (empty if low & 1 else 0)
        value = (value >> 8) ^ low
    return value


def test_the_bytes_are_those_of_avro() -> None:
    """Encoded by hand, field after field in the order of the schema."""
    no, yes, nothing = _long(0), _long(1), b"\x00"
    expected = [
        b"\xc3\x01" + avro.fingerprint(avro.current()),
        _text("event-1"),
        _text("run-1"),
        no,  # parent_run_id
        no,  # retry_of
        _long(1),
        _long(300),
        _long(1_772_366_400_000_000),
        no,  # captured_at
        _long(8),  # tool_requested
        no,  # kind_name
        yes + _text("look_up"),
        no,  # call_id
        no,  # idempotency_key
        _text('{"arguments":{}}'),
        no,  # retention_class
        _long(1) + _text("cus_1") + nothing,
        _text("agent") + _text("1.2"),
        nothing,  # redactions
        no,  # ruleset
    ]
    event = RunEvent(
        event_id="event-1",
        run_id="run-1",
        sequence=300,
        occurred_at=1_772_366_400_000_000,
        kind="tool.requested",
        name="look_up",
        body='{"arguments":{}}',
        subjects=("cus_1",),
        producer=Producer("agent", "1.2"),
    )
    assert encode(event) == b"".join(expected)


def _long(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def _text(value: str) -> bytes:
    return _long(len(value.encode())) + value.encode()
