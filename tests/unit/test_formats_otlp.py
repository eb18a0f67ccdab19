"""Traces and logs of the real SDK: the tree is kept, nothing is lost, no secret comes through."""

import itertools
import json
import random
import string
import sys
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from opentelemetry.trace import Status, StatusCode
from otel_samples import Telemetry, secret_bearing

from pipeline.errors import InputError, UsageError
from pipeline.formats import FORMATS, Source
from pipeline.masking import Coordinates, MaskedEvent, Masker
from pipeline.slices import Message
from schemas import RunEvent, encode

NOW_US = 1_796_000_000_000_000


def read(name: str, content: bytes) -> list[RunEvent]:
    known = [each.name for each in FORMATS.values() if each.sniff(content[:65_536])]
    assert known == [name]
    return list(FORMATS[name].read(Source(BytesIO(content), "export", NOW_US)))


def both(telemetry: Telemetry) -> list[RunEvent]:
    """The events of a file, which are the same from protobuf and from JSON."""
    events = read("otlp-proto", telemetry.as_proto())
    assert read("otlp-json", telemetry.as_json()) == events
    for _, run in itertools.groupby(events, key=lambda event: event.run_id):
        sequences = [event.sequence for event in run]
        assert sequences == list(range(len(sequences)))
    return events


def told(events: list[RunEvent]) -> list[tuple[str, str | None, str | None]]:
    every = ((e.kind_name or e.kind, e.name, e.call_id) for e in events)
    return [each for each in every if each[0] != "input.declared"]


def body(events: list[RunEvent], kind: str) -> dict[str, Any]:
    (event,) = (e for e in events if kind in (e.kind, e.kind_name))
    found: dict[str, Any] = json.loads(event.body)
    return found


def plain_words() -> Iterator[str]:
    return (f"word-{number}" for number in itertools.count())


def keys() -> Iterator[str]:
    """Keys of a provider's form, made here."""
    chance = random.Random(7)
    while True:
        yield "ghp" + "_" + "".join(chance.choices(string.ascii_letters + string.digits, k=36))


def test_calls_of_an_agent_are_told_by_the_conventions() -> None:
    telemetry, _ = secret_bearing(plain_words())
    events = both(telemetry)
    model = next(e.call_id for e in events if e.kind == "model.requested")
    assert told(events) == [
        ("run.started", None, None),
        ("environment.captured", None, None),
        ("otel.log", "retrieved", None),
        ("message", None, None),
        ("otel.span", "invoke_agent shop", None),
        ("model.requested", "m", model),
        ("message", None, None),
        ("model.responded", "m", model),
        ("tool.requested", "look", "call-1"),
        ("error", None, None),
        ("tool.responded", "look", "call-1"),
        ("run.finished", None, None),
    ]
    asked, answered = body(events, "model.requested"), body(events, "model.responded")
    assert (asked["provider"], asked["requested_model"]) == ("acme", "m")
    assert asked["settings"] == {"temperature": 0.5}
    assert asked["messages"][0]["role"] == "user" and asked["system_instructions"]
    assert (answered["returned_model"], answered["request_id"]) == ("m-2026", "response-1")
    assert answered["usage"] == {"input_tokens": 7, "output_tokens": 2}
    assert body(events, "tool.requested")["arguments"].keys() == {"for"}
    result = body(events, "tool.responded")
    assert (result["status"], result["content"].keys()) == ("error", {"found"})
    assert body(events, "error")["type"] == "ValueError"


def test_what_is_not_mapped_is_kept() -> None:
    telemetry, places = secret_bearing(plain_words())
    events = both(telemetry)
    every = "".join(event.body for event in events)
    assert [place for word, place in places.items() if f"see {word} there" not in every] == []
    span = body(events, "model.responded")["span"]
    assert span["attributes"]["gen_ai"]["conversation"] == {"id": "conversation-1"}
    assert span["attributes"]["http"]["request"]["header"].keys() == {"authorization"}
    assert [event["name"] for event in span["events"]] == ["cache.missed"]
    assert span["scope"] == {"name": "agent", "version": "1.2"}
    (link,) = body(events, "tool.responded")["span"]["links"]
    assert link["spanId"] == body(events, "model.responded")["span_id"]


def test_no_secret_comes_through_wherever_it_stands_and_the_tree_does(masker: Masker) -> None:
    telemetry, places = secret_bearing(keys())
    assert len(places) >= 16
    events = both(telemetry)
    rows = []
    for offset, event in enumerate(events):
        result = masker.mask(
            Message(offset, None, event.run_id.encode(), encode(event)),
            Coordinates("t", 0),
            event.occurred_at,
        )
        assert isinstance(result, MaskedEvent)
        rows.append(result.row)
    stored = json.dumps(rows)
    assert [place for secret, place in places.items() if secret in stored] == []
    assert sum(len(row["redactions"]) for row in rows) >= len(places)
    assert _tree([json.loads(row["body"]) for row in rows]) == _tree(
        [json.loads(event.body) for event in events]
    )
    assert len(_tree([json.loads(row["body"]) for row in rows])) == 3
    assert {row["run_id"] for row in rows} == {events[0].run_id}


def _tree(bodies: list[dict[str, Any]]) -> dict[str, str | None]:
    """The parent of each span."""
    spans = (each for each in bodies if "span" in each)
    return {each["span_id"]: each.get("parent_span_id") for each in spans}


def test_the_details_of_a_call_go_to_its_span_or_stand_alone() -> None:
    details = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps([{"role": "user"}]),
    }
    name = "gen_ai.client.inference.operation.details"
    within = Telemetry({})
    with within.tracer.start_as_current_span("chat m") as span:
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
        within.log(name, None, details, 1_790_000_000_000_000_000)
    events = both(within)
    assert [e.kind for e in events].count("model.requested") == 1
    assert body(events, "model.requested")["messages"] == [{"role": "user"}]

    alone = Telemetry({})
    alone.log(name, None, details, 1_790_000_000_000_000_000)
    events = read("otlp-proto", alone.as_proto())  # of no trace: the ids are the file's
    (asked,) = (e for e in events if e.kind == "model.requested")
    assert asked.name == "m" and asked.occurred_at == 1_790_000_000_000_000


def test_open_inference_and_older_conventions_are_understood() -> None:
    telemetry = Telemetry({})
    with telemetry.tracer.start_as_current_span("ChatCompletion") as span:
        span.set_attributes(
            {
                "openinference.span.kind": "LLM",
                "llm.model_name": "m",
                "llm.invocation_parameters": '{"temperature": 0}',
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": "Why?",
                "llm.output_messages.0.message.content": "So.",
                "llm.token_count.prompt": 7,
                "metadata": "kept",
            }
        )
    events = both(telemetry)
    asked, answered = body(events, "model.requested"), body(events, "model.responded")
    assert asked["messages"] == [{"message": {"role": "user", "content": "Why?"}}]
    assert asked["settings"] == {"temperature": 0}
    assert answered["message"] == [{"message": {"content": "So."}}]
    assert answered["usage"] == {"input_tokens": 7}
    assert answered["span"]["attributes"]["metadata"] == "kept"

    telemetry = Telemetry({})
    with telemetry.tracer.start_as_current_span("look") as span:
        span.set_attributes({"openinference.span.kind": "TOOL", "tool.name": "look"})
        span.set_attributes({"input.value": '{"n": 1}', "output.value": "seen"})
    with telemetry.tracer.start_as_current_span("chat") as span:
        span.set_attributes({"gen_ai.system": "acme", "gen_ai.request.model": "m"})
        span.set_attribute("gen_ai.usage.prompt_tokens", 3)
        span.set_status(Status(StatusCode.ERROR))
    events = both(telemetry)
    assert body(events, "tool.requested")["arguments"] == {"n": 1}
    assert body(events, "tool.responded")["content"] == "seen"
    assert body(events, "model.requested")["provider"] == "acme"
    assert body(events, "model.responded")["usage"] == {"input_tokens": 3}
    ends = [json.loads(e.body)["status"] for e in events if e.kind == "run.finished"]
    assert ends == ["completed", "failed"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"a": 1, "a.b": 2, "a.b.c": 3},
        {"a.b": 1, "a": 2},
        {".": 1, "a..b": 2},
        {".".join("x" * 40): "deep"},
    ],
)
def test_a_name_that_is_a_value_and_a_namespace_loses_nothing(attributes: dict[str, Any]) -> None:
    telemetry = Telemetry({})
    with telemetry.tracer.start_as_current_span("step", attributes=attributes):
        pass
    found = body(both(telemetry), "otel.span")["span"]["attributes"]
    leaves = json.dumps(found)
    assert all(f": {json.dumps(value)}" in leaves for value in attributes.values())


def test_an_attribute_that_comes_twice_is_kept_twice() -> None:
    pair = [{"key": "a", "value": {"stringValue": text}} for text in ("x", "y")]
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "attributes": pair}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    events = read("otlp-json", json.dumps(request).encode())
    assert body(events, "otel.span")["span"]["attributes"] == {"a": "x", "a#2": "y"}


def test_without_the_extra_protobuf_is_not_read_and_json_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    telemetry, _ = secret_bearing(plain_words())
    monkeypatch.delitem(sys.modules, "pipeline.formats.otlp_proto", raising=False)
    monkeypatch.setitem(sys.modules, "google.protobuf.json_format", None)
    assert read("otlp-json", telemetry.as_json())
    with pytest.raises(UsageError) as caught:
        read("otlp-proto", telemetry.as_proto())
    assert "redactory[otel]" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("otlp-json", b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "a"}]}]}]}'),
        ("otlp-json", b'{"resourceSpans": 7}'),
        ("otlp-json", b'{"resourceSpans": [], "resourceMetrics": []}'),
        ("otlp-json", b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": 1}]}]}]}'),
        ("otlp-proto", b"\0\0\0\x09\x0a\x02"),
        ("otlp-proto", b"\0\0\0\x04\x0a\x02\xff\xff"),
    ],
)
def test_what_is_no_export_is_refused(name: str, content: bytes) -> None:
    with pytest.raises(InputError, match=r"^export: "):
        list(FORMATS[name].read(Source(BytesIO(content), "export", NOW_US)))
