"""Records of a topic that hold export requests: what is told of each span, and what of it stays."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from otel_samples import Telemetry, secret_bearing

from pipeline.errors import UsageError
from pipeline.slices import Message
from pipeline.unpacking import encoding_of, unpacked
from schemas import RunEvent, decode

RECEIVED_US = 1_790_000_000_000_000


def read(value: bytes, encoding: str = "otlp-json", offset: int = 7) -> list[Message]:
    return list(unpacked(Message(offset, RECEIVED_US, None, value), encoding, "spans", 2))


def events(messages: list[Message]) -> list[RunEvent]:
    return [decode(message.value) for message in messages if not message.unfit]


def plain_words() -> Iterator[str]:
    return (f"word-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def telemetry() -> Telemetry:
    return secret_bearing(plain_words())[0]


def body(event: RunEvent) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(event.body)
    return found


def spans_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return found


def test_each_event_of_a_record_is_a_message_of_its_own(telemetry: Telemetry) -> None:
    spans, logs = telemetry.as_json().split(b"\n")
    messages = read(spans)
    assert {message.offset for message in messages} == {7}
    members = [message.member for message in messages]
    assert [m.index for m in members if m] == list(range(len(messages)))
    assert {(m.count, m.record) for m in members if m} == {(len(messages), spans)}
    told = events(messages)
    assert [message.key for message in messages] == [event.run_id.encode() for event in told]
    assert told[0].kind == "run.started"
    assert told[-1].kind == "run.finished"
    assert {e.run_id for e in (*told, *events(read(logs)))} == {told[0].run_id}


def test_protobuf_and_json_say_the_same(telemetry: Telemetry) -> None:
    together = Telemetry({"service.name": "shop"})
    with together.tracer.start_as_current_span("only one"):
        pass
    (proto,) = together.requests()
    assert events(read(proto, "otlp-proto")) == events(read(together.as_json()))


def test_a_span_is_the_same_event_whichever_record_brings_it(telemetry: Telemetry) -> None:
    request = json.loads(telemetry.as_json().split(b"\n")[0])
    whole = events(read(json.dumps(request).encode()))
    alone = []
    for number, span in enumerate(spans_of(request)):
        (resource,) = request["resourceSpans"]
        (scope,) = resource["scopeSpans"]
        cut = {"resourceSpans": [{**resource, "scopeSpans": [{**scope, "spans": [span]}]}]}
        alone += events(read(json.dumps(cut).encode(), offset=number))

    def identities(found: list[RunEvent]) -> set[tuple[str, int, str]]:
        return {
            (each.event_id, each.sequence, each.kind)
            for each in found
            if each.kind != "environment.captured"
        }

    assert identities(alone) == identities(whole)
    resources = {e.event_id for e in alone if e.kind == "environment.captured"}
    assert len(resources) == 3  # one for each record
    named = {body(e)["span"]["resource"] for e in alone if "span" in body(e)}
    assert named == resources


def test_without_the_root_no_end_is_made_up(telemetry: Telemetry) -> None:
    request = json.loads(telemetry.as_json().split(b"\n")[0])
    spans = spans_of(request)
    spans[:] = [span for span in spans if span.get("parentSpanId")]
    kinds = {event.kind for event in events(read(json.dumps(request).encode()))}
    assert "tool.requested" in kinds
    assert not kinds & {"run.started", "run.finished", "input.declared"}


@pytest.mark.parametrize(
    "change",
    [
        {"spanId": ""},
        {"traceId": 5},
        {"traceId": "\ud83d"},
        {"endTimeUnixNano": "soon"},
        {"attributes": [7]},
    ],
    ids=["no-id", "id-is-no-text", "id-is-no-utf-8", "time-is-none", "attribute-is-none"],
)
def test_a_span_that_is_none_leaves_the_others(telemetry: Telemetry, change: Any) -> None:
    request = json.loads(telemetry.as_json().split(b"\n")[0])
    whole = len(read(json.dumps(request).encode()))
    spans_of(request)[0].update(change)
    messages = read(json.dumps(request).encode())
    assert [message.unfit for message in messages].count("not-otlp") == 1
    assert messages[-1].unfit == "not-otlp"
    assert messages[-1].member is not None
    assert whole > len(messages) > 5


@pytest.mark.parametrize("encoding", ["otlp-json", "otlp-proto"])
@pytest.mark.parametrize(
    "value",
    [b"rubbish", b"{}", b'{"resourceSpans": []}', b'{"resourceSpans": 3}', b"[" * 100_000, b"\n"],
    ids=["rubbish", "object", "empty", "number", "deep", "space"],
)
def test_a_record_that_is_no_request_stays_one_message(encoding: str, value: bytes) -> None:
    (message,) = read(value, encoding)
    assert (message.unfit, message.value, message.member) == ("not-otlp", value, None)


def test_two_logs_that_say_the_same_are_two_events() -> None:
    record = {"timeUnixNano": "1790000000000000000", "body": {"stringValue": "again"}}
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record, record]}]}]}
    value = json.dumps(request).encode()
    found = events(read(value)) + events(read(value, offset=8))
    logs = [event for event in found if event.kind_name == "otel.log"]
    assert len({event.event_id for event in logs}) == 4
    assert len({event.run_id for event in logs}) == 2  # of no trace: a run for each record
    assert {event.sequence for event in logs} == {1_790_000_000_000_000}


def test_what_has_no_time_has_that_of_its_record() -> None:
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "step"}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    found = events(read(json.dumps(request).encode()))
    assert {event.occurred_at for event in found} == {RECEIVED_US}


def test_what_no_topic_holds_is_no_format_of_a_topic() -> None:
    assert encoding_of("auto") == encoding_of("run-event") == ""
    assert encoding_of("otlp-proto") == "otlp-proto"
    with pytest.raises(UsageError, match="no topic is read as vcr"):
        encoding_of("vcr")
