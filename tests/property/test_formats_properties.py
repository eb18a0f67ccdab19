"""Whatever stands in a file, an importer makes events of it that can be sent, or refuses it."""

import contextlib
import copy
import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.deadletters import CODES
from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source
from pipeline.slices import Message
from pipeline.unpacking import unpacked
from schemas import EncodeError, decode, encode

NOW_US = 1_772_366_400_000_000
CALL = {"id": "c", "function": {"name": "look", "arguments": "{}"}}
CHAT: list[Any] = [
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "x"},
]
META = {"function_name": "f", "tool_call_id": "c", "model_response": {"id": "a", "usage": {}}}
HISTORY: list[Any] = [
    {"id": 0, "source": "user", "action": "message", "args": {"content": "x"}, "timestamp": "?"},
    {"id": 1, "source": "agent", "action": "run", "tool_call_metadata": META},
    {"id": 2, "observation": "run", "cause": 1},
]
OUTPUT = {"model": "m", "choices": [{"message": CHAT[0]}], "usage": {}}
STEPS: list[Any] = [
    {"event": "model", "model": "a/m", "config": {}, "output": OUTPUT, "timestamp": "?"},
    {"event": "tool", "id": "c", "function": "look", "arguments": {}, "completed": "?"},
]
FILES: dict[str, Any] = {
    "tau-bench": [{"task_id": 1, "info": {"task": {}}, "traj": CHAT, "reward": 1}],
    "swe-agent": {
        "trajectory": [{"action": "ls", "observation": "a"}],
        "history": CHAT,
        "info": {"exit_status": "submitted", "submission": "diff"},
        "replay_config": {
            "env": {"repo": {"path": "r"}, "deployment": {"image": "i"}},
            "agent": {"name": "n"},
            "problem_statement": {},
        },
    },
    "openhands": HISTORY,
    "inspect": {
        "version": 2,
        "eval": {"task": "t", "created": "?", "revision": {"commit": "c"}, "packages": {"p": "1"}},
        "samples": [{"id": 1, "messages": CHAT, "events": STEPS, "attachments": {"a": "x"}}],
    },
}
SPANS: list[Any] = [
    {"id": "t", "trace_id": "t", "run_type": "chain", "inputs": {}, "end_time": "?"},
    {"id": "l", "trace_id": "t", "run_type": "llm", "extra": {"metadata": {"ls_provider": "p"}}},
    {"id": "c", "trace_id": "t", "run_type": "tool", "child_runs": [], "end_time": "2026-02-27"},
]
FILES |= {
    "langsmith": SPANS,
    "vcr": {
        "interactions": [
            {
                "request": {"uri": "https://a.test", "body": '{"model": "m"}', "headers": {}},
                "response": {"status": {"code": 200}, "body": {"string": "{}"}},
                "recorded_at": "?",
            },
            {"request": {"uri": "//["}, "response": {"status_code": 404}},
        ]
    },
}
SPAN: dict[str, Any] = {
    "traceId": "t",
    "spanId": "s",
    "name": "chat",
    "startTimeUnixNano": "1",
    "endTimeUnixNano": "2",
    "attributes": [
        {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
        {"key": "llm.input_messages.0.message.role", "value": {"stringValue": "user"}},
        {"key": "a.b", "value": {"arrayValue": {"values": [{"intValue": "7"}]}}},
        {"key": "a", "value": {"kvlistValue": {"values": []}}},
    ],
    "events": [{"name": "exception", "timeUnixNano": "1", "attributes": []}],
    "links": [{"traceId": "t", "spanId": "x"}],
    "status": {"code": 2},
}
LOG: dict[str, Any] = {
    "traceId": "t",
    "body": {"stringValue": "x"},
    "eventName": "gen_ai.user.message",
}
FILES["otlp-json"] = {
    "resourceSpans": [
        {"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": [SPAN]}]}
    ],
    "resourceLogs": [{"scopeLogs": [{"logRecords": [LOG]}]}],
}
ODD = (None, True, 7, -1.5, "", "x", "\ud83d", [], [None], [[]], {}, {"x": None}, 10**400)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def changed(value: Any, data: st.DataObject) -> Any:
    """The value with anything in some places, or without them."""
    value = copy.deepcopy(value)
    for _ in range(data.draw(st.integers(1, 3))):
        if not (found := list(places(value))):
            break
        container, key = data.draw(st.sampled_from(found))
        if isinstance(container, dict) and data.draw(st.booleans()):
            del container[key]
        else:
            container[key] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    return value


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_a_file_with_anything_anywhere_gives_events_or_is_refused(
    name: str, data: st.DataObject
) -> None:
    file = changed(FILES[name], data)
    source = Source(BytesIO(json.dumps(file).encode()), "file", NOW_US)
    try:
        events = list(FORMATS[name].read(source))
    except InputError:
        return
    for _, run in groupby(events, key=lambda event: event.run_id):
        sequences = [event.sequence for event in run]
        assert sequences == list(range(len(sequences)))
    for event in events:
        with contextlib.suppress(EncodeError):  # half a surrogate pair: the emitter names it
            assert encode(event)


@given(data=st.data())
def test_a_record_with_anything_anywhere_gives_messages_that_are_read_or_named(
    data: st.DataObject,
) -> None:
    value = json.dumps(changed(FILES["otlp-json"], data)).encode()
    check_messages(unpacked(Message(0, NOW_US, None, value), "otlp-json", "spans", 0))


@pytest.mark.parametrize("place", ["resource", "span", "status"])
def test_no_depth_of_a_record_ends_the_reader(place: str) -> None:
    request = copy.deepcopy(FILES["otlp-json"])
    (resource,) = request["resourceSpans"]
    span = resource["scopeSpans"][0]["spans"][0]
    holders = {"resource": resource["resource"], "span": span, "status": span["status"]}
    holders[place]["deep"] = "here"
    for depth in (*range(100, 800, 50), *range(800, 1_000)):
        value = json.dumps(request).replace('"here"', "[" * depth + "]" * depth).encode()
        check_messages(unpacked(Message(0, NOW_US, None, value), "otlp-json", "spans", 0))


def check_messages(messages: Sequence[Message]) -> None:
    """Each is an event, or says why it is none; together they are the record."""
    for number, message in enumerate(messages):
        if message.member is not None:
            assert (message.member.index, message.member.count) == (number, len(messages))
        else:
            assert len(messages) == 1 and message.unfit
        assert message.unfit in CODES or decode(message.value)
