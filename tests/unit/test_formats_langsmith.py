"""LangSmith exports: a trace is a run, its calls stand in the order of time."""

import json
from io import BytesIO
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source
from schemas import RunEvent

FORMAT = FORMATS["langsmith"]
NOW_US = 1_772_366_400_000_000


def span(name: str, run_type: str, start_s: float, end_s: float, **more: Any) -> dict[str, Any]:
    at = {"start_time": f"2026-02-27T10:00:{start_s:09.6f}"}
    at["end_time"] = f"2026-02-27T10:00:{end_s:09.6f}"
    return {"id": name, "name": name, "run_type": run_type, "trace_id": "root"} | at | more


ROOT = span("root", "chain", 0, 9, inputs={"question": "Why?"}, outputs={"answer": "So."})
EXTRA = {
    "metadata": {"ls_provider": "acme", "ls_model_name": "m"},
    "invocation_params": {"temperature": 0},
}
MODEL = span(
    "call", "llm", 1, 2, inputs={"messages": []}, outputs={"x": 1}, extra=EXTRA, prompt_tokens=7
)
TOOL = span("look", "tool", 2, 3, inputs={"input": "a"}, outputs=None, error="no such thing")
STEP = span("step", "chain", 1, 3, inputs={"y": 2}, outputs={"z": 3})
OTHER_TRACE = span("solo", "llm", 5, 6, inputs={}, outputs={}) | {"trace_id": "solo"}


def read(*spans: Any, as_list: bool = False) -> list[RunEvent]:
    content = json.dumps(spans) if as_list else "\n".join(map(json.dumps, spans))
    assert FORMAT.sniff(content.encode())
    return list(FORMAT.read(Source(BytesIO(content.encode()), "export", NOW_US)))


@pytest.mark.parametrize("as_list", [False, True])
def test_calls_stand_in_the_order_of_time_whatever_the_file_s(as_list: bool) -> None:
    events = read(TOOL, STEP, MODEL, ROOT, as_list=as_list)
    told = [(e.kind_name or e.kind, e.name, e.call_id) for e in events]
    assert [each for each in told if each[0] != "input.declared"] == [
        ("run.started", None, None),
        ("task.captured", None, None),
        ("langsmith.chain", "step", None),
        ("model.requested", "m", "call"),
        ("model.responded", "m", "call"),
        ("tool.requested", "look", "look"),
        ("tool.responded", "look", "look"),
        ("run.finished", None, None),
    ]
    assert {e.run_id for e in events} == {"root"}
    assert events[-1].occurred_at - events[0].occurred_at == 9_000_000


def test_each_field_of_a_span_stands_in_one_body() -> None:
    bodies = {e.kind_name or e.kind: json.loads(e.body) for e in read(ROOT, STEP, MODEL, TOOL)}
    assert bodies["task.captured"]["task"] == ROOT["inputs"]
    assert bodies["run.finished"]["outputs"] == ROOT["outputs"]
    assert bodies["run.finished"]["status"] == "completed"
    assert bodies["langsmith.chain"] == STEP
    asked, answered = bodies["model.requested"], bodies["model.responded"]
    assert (asked["provider"], asked["requested_model"]) == ("acme", "m")
    assert asked["inputs"] == MODEL["inputs"] and "outputs" not in asked
    assert answered["outputs"] == MODEL["outputs"] and "inputs" not in answered
    assert answered["usage"]["input_tokens"] == 7
    assert bodies["tool.requested"]["arguments"] == TOOL["inputs"]
    assert bodies["tool.responded"]["status"] == "error"
    assert bodies["tool.responded"]["error"] == TOOL["error"]


def test_traces_are_runs_and_spans_may_lie_within_others() -> None:
    events = read(ROOT | {"child_runs": [STEP | {"child_runs": [TOOL]}]}, OTHER_TRACE)
    assert [e.run_id for e in events] == sorted(e.run_id for e in events)
    assert {e.run_id for e in events} == {"root", "solo"}
    assert "tool.responded" in {e.kind for e in events}
    assert [e.kind for e in events if e.run_id == "solo" and e.kind != "input.declared"] == [
        "run.started", "model.requested", "model.responded", "run.finished"
    ]  # fmt: skip


def test_what_has_not_ended_has_no_end() -> None:
    pending = {"end_time": None, "outputs": None}
    kinds = {e.kind for e in read(ROOT | pending, MODEL | pending)}
    assert "model.requested" in kinds
    assert not kinds & {"model.responded", "run.finished"}


@pytest.mark.parametrize("bad", [7, [], {"id": "a"}, MODEL | {"trace_id": None}])
def test_what_is_no_span_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match=r"^export: this is not a list of spans"):
        read(MODEL, bad)
