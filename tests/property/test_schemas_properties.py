"""Whatever arrives: an event or a code, and an event that survives being sent again."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import (
    KINDS,
    DeclaredRedaction,
    DecodeError,
    Producer,
    RunEvent,
    decode,
    encode,
    encode_json,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
OPTIONAL = st.none() | TEXTS
SPANS = st.none() | st.integers(0, 2**31 - 1)
TIMES_US = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
BODIES = JSON.map(lambda value: json.dumps(value, ensure_ascii=False))
REDACTIONS = st.builds(
    DeclaredRedaction,
    *(TEXTS, TEXTS, TEXTS, TEXTS),
    *(SPANS, SPANS, SPANS),
    st.lists(TEXTS, max_size=2).map(tuple),
)
EVENTS = st.builds(
    RunEvent,
    event_id=TEXTS,
    run_id=TEXTS,
    sequence=st.integers(0, 2**63 - 1),
    occurred_at=TIMES_US,
    kind=st.sampled_from(KINDS),
    body=BODIES,
    attempt=st.integers(0, 2**31 - 1),
    parent_run_id=OPTIONAL,
    retry_of=OPTIONAL,
    captured_at=st.none() | TIMES_US,
    kind_name=OPTIONAL,
    name=OPTIONAL,
    call_id=OPTIONAL,
    idempotency_key=OPTIONAL,
    retention_class=OPTIONAL,
    subjects=st.lists(TEXTS, max_size=3).map(tuple),
    producer=st.builds(Producer, TEXTS, TEXTS),
    redactions=st.lists(REDACTIONS, max_size=2).map(tuple),
    ruleset=OPTIONAL,
)


@settings(max_examples=200)
@given(EVENTS)
def test_an_event_survives_both_encodings(event: RunEvent) -> None:
    assert decode(encode(event)) == event
    assert decode(encode_json(event)) == event


@settings(max_examples=200)
@given(EVENTS, st.data())
def test_damaged_values_give_an_event_or_a_code(event: RunEvent, data: st.DataObject) -> None:
    value = bytearray(data.draw(st.sampled_from([encode, encode_json]))(event))
    start = data.draw(st.integers(0, len(value)))
    end = data.draw(st.integers(start, min(len(value), start + 4)))
    value[start:end] = data.draw(st.binary(max_size=9))
    try:
        again = decode(bytes(value))
    except DecodeError:
        return
    assert decode(encode(again)) == again


@settings(max_examples=200)
@given(st.binary(max_size=60), st.sampled_from([b"", b"{", b"\xc3\x01", b"\x00"]))
def test_noise_gives_a_code(noise: bytes, start: bytes) -> None:
    try:
        decode(start + noise)
    except DecodeError:
        return
    raise AssertionError("noise became an event")


@settings(max_examples=200)
@given(BODIES, st.dictionaries(st.text("xyz", min_size=5), JSON, min_size=1, max_size=3))
def test_unknown_fields_can_be_read_back_beside_the_body(
    body: str, unknown: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {"event_id": "e", "run_id": "r", "sequence": 0, "occurred_at": 0}
    fields |= {"kind": "message", "body": body} | unknown
    stored = json.loads(decode(json.dumps(fields).encode()).body)
    original = json.loads(body)
    assert stored.pop("_unknown_fields") == unknown
    assert (stored.get("_body", stored) if not isinstance(original, dict) else stored) == original
