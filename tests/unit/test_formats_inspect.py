"""Inspect logs: a sample is a run; messages, events and attachments are there once each."""

import json
from io import BytesIO
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source
from schemas import RunEvent

FORMAT = FORMATS["inspect"]
NOW_US = 1_772_366_400_000_000
AT = "2026-02-27T10:00:00.250000+00:00"
LATER = "2026-02-27T10:00:01.250000+00:00"
CALL = {"id": "c", "function": "look", "arguments": {"n": 1}}
MESSAGES = [
    {"role": "user", "content": "attachment://a"},
    {"id": "m-1", "role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "seen", "tool_call_id": "c", "function": "look"},
    {"id": "m-2", "role": "assistant", "content": "Done."},
]


def model(message: dict[str, Any]) -> dict[str, Any]:
    output = {"model": "m-2026", "choices": [{"message": message}], "usage": {"input_tokens": 7}}
    event = {"event": "model", "timestamp": AT, "completed": LATER, "model": "acme/m"}
    return event | {"input": [], "tools": [], "config": {"seed": 1}, "output": output}


EVENTS = [
    {"event": "span_begin", "timestamp": AT, "name": "init"},
    model(MESSAGES[1]),
    {"event": "tool", "id": "c", "function": "look", "arguments": {"n": 1}, "result": "seen"},
    model(MESSAGES[3]),
    {"event": "score", "timestamp": AT, "score": 1},
]
SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": "Look.",
    "target": "x",
    "messages": MESSAGES,
    "events": EVENTS,
    "attachments": {"a": "Look."},
    "scores": {"match": 1},
}
EVAL = {
    "task": "t",
    "created": AT,
    "revision": {"commit": "abc"},
    "packages": {"inspect_ai": "0.3"},
    "sandbox": {"type": "docker"},
}


def read(*samples: Any, **more: Any) -> list[RunEvent]:
    log = {"version": 2, "eval": EVAL, "plan": {"steps": []}, "samples": list(samples)} | more
    return list(FORMAT.read(Source(BytesIO(json.dumps(log).encode()), "log.json", NOW_US)))


def test_messages_stand_where_the_steps_are_that_they_belong_to() -> None:
    events = read(SAMPLE)
    told = [(e.kind_name or e.kind, e.name, e.call_id) for e in events]
    assert [each for each in told if each[0] != "input.declared"] == [
        ("run.started", None, None),
        ("task.captured", None, None),
        ("policy.captured", None, None),
        ("environment.captured", None, None),
        ("inspect.attachment", None, None),
        ("inspect.span_begin", None, None),
        ("message", None, None),
        ("model.requested", "acme/m", "model-1"),
        ("model.responded", "acme/m", "model-1"),
        ("message", None, None),
        ("tool.requested", "look", "c"),
        ("tool.responded", "look", "c"),
        ("message", None, None),
        ("model.requested", "acme/m", "model-3"),
        ("model.responded", "acme/m", "model-3"),
        ("message", None, None),
        ("inspect.score", None, None),
        ("run.finished", None, None),
    ]
    assert [json.loads(e.body) for e in events if e.kind == "message"] == MESSAGES


def test_an_answer_names_both_models_and_what_it_took() -> None:
    events = read(SAMPLE)
    asked = next(e for e in events if e.kind == "model.requested")
    answered = next(e for e in events if e.kind == "model.responded")
    assert answered.occurred_at - asked.occurred_at == 1_000_000
    request, answer = json.loads(asked.body), json.loads(answered.body)
    assert (request["provider"], request["settings"]) == ("acme", {"seed": 1})
    assert (answer["requested_model"], answer["returned_model"]) == ("acme/m", "m-2026")
    assert answer["usage"] == {"input_tokens": 7} and answer["output"] == EVENTS[1]["output"]


def test_a_sample_is_a_run_and_fails_with_an_error() -> None:
    events = read(SAMPLE, SAMPLE | {"error": {"message": "no"}})
    ends = [json.loads(e.body) for e in events if e.kind == "run.finished"]
    assert [end["status"] for end in ends] == ["completed", "failed"]
    assert ends[0]["scores"] == {"match": 1}
    assert len({e.run_id for e in events}) == 2


def test_without_events_the_messages_tell_the_calls() -> None:
    bare = {key: SAMPLE[key] for key in ("id", "epoch", "input", "messages")}
    told = [(e.kind, e.name, e.call_id) for e in read(bare)]
    assert ("tool.requested", "look", "c") in told and ("tool.responded", "look", "c") in told
    assert ("input.declared", "models", None) in told


def test_older_logs_keep_events_and_attachments_in_a_transcript() -> None:
    older = {key: SAMPLE[key] for key in SAMPLE if key not in ("events", "attachments")}
    older["transcript"] = {"events": EVENTS, "content": SAMPLE["attachments"]}
    assert [e.kind for e in read(older)] == [e.kind for e in read(SAMPLE)]


@pytest.mark.parametrize("bad", [5, {"messages": [1]}, {"messages": [], "events": {}}])
def test_what_is_no_sample_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match=r"log\.json: sample 0 "):
        read(bad)


def test_a_log_without_samples_is_refused() -> None:
    with pytest.raises(InputError, match="this is not a log with samples"):
        read(samples=None)
