"""SWE-agent trajectories: messages and steps, once each and in order."""

import json
from io import BytesIO
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source
from schemas import RunEvent

FORMAT = FORMATS["swe-agent"]
NOW_US = 1_772_366_400_000_000
HISTORY = [
    {"role": "system", "content": "Fix it.", "agent": "main"},
    {"role": "assistant", "content": "an example", "is_demo": True, "agent": "main"},
    {"role": "assistant", "content": "I look", "action": "ls -a", "agent": "main"},
    {"role": "user", "content": "a.py", "agent": "main"},
]
STEPS = [
    {"action": "ls -a", "observation": "a.py", "thought": "I look", "execution_time": 0.25},
    {"action": "submit", "observation": "diff", "thought": "done"},
]
CONFIG = {
    "env": {
        "repo": {"github_url": "https://example.org/r", "base_commit": "HEAD"},
        "deployment": {"image": "tiny"},
    },
    "agent": {"name": "main", "model": {"name": "m-1"}},
    "problem_statement": {"id": "issue-1"},
}
FILE = {
    "environment": "main",
    "trajectory": STEPS,
    "history": HISTORY,
    "info": {"exit_status": "submitted", "submission": "diff", "model_stats": {"api_calls": 2}},
    "replay_config": CONFIG,
}


def read(file: Any) -> list[RunEvent]:
    return list(FORMAT.read(Source(BytesIO(json.dumps(file).encode()), "a.traj", NOW_US)))


def test_each_step_follows_the_message_that_asks_for_it() -> None:
    told = [(e.kind, e.name, e.call_id) for e in read(FILE) if e.kind != "input.declared"]
    assert told == [
        ("run.started", None, None),
        ("task.captured", None, None),
        ("workspace.captured", None, None),
        ("policy.captured", None, None),
        ("environment.captured", None, None),
        ("message", None, None),
        ("message", None, None),
        ("message", None, None),
        ("tool.requested", "ls", "step-0"),
        ("tool.responded", "ls", "step-0"),
        ("message", None, None),
        ("tool.requested", "submit", "step-1"),
        ("tool.responded", "submit", "step-1"),
        ("artifact.produced", "patch", None),
        ("run.finished", None, None),
    ]


def test_the_whole_file_stands_in_its_events() -> None:
    bodies = [(event.kind, json.loads(event.body)) for event in read(FILE)]
    assert [body for kind, body in bodies if kind == "message"] == HISTORY
    asked = [body for kind, body in bodies if kind == "tool.requested"]
    done = [body for kind, body in bodies if kind == "tool.responded"]
    steps = [
        {"action": a["arguments"], "observation": d.pop("content")} | d
        for a, d in zip(asked, done, strict=True)
    ]
    assert steps == STEPS
    by_kind = dict(bodies)
    assert by_kind["policy.captured"]["agent"] == CONFIG["agent"]
    assert by_kind["workspace.captured"]["commit"] == "HEAD"
    assert by_kind["environment.captured"]["image"] == {"name": "tiny"}
    assert by_kind["artifact.produced"]["content"] == "diff"
    assert by_kind["run.finished"]["info"]["model_stats"] == {"api_calls": 2}


def test_a_configuration_may_be_json_text() -> None:
    as_text = [e.body for e in read(FILE | {"replay_config": json.dumps(CONFIG)})]
    assert as_text == [e.body for e in read(FILE)]


def test_what_the_file_does_not_say_is_declared_missing_and_no_end_is_made_up() -> None:
    call = {"id": "c", "function": {"name": "find", "arguments": "{}"}}
    history = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "found", "tool_call_ids": ["c"]},
    ]
    events = read({"history": history})
    assert [(e.kind, e.name, e.call_id) for e in events[-4:-1]] == [
        ("message", None, None),
        ("tool.requested", "find", "c"),
        ("tool.responded", "find", "c"),
    ]
    declared = {e.name for e in events if e.kind == "input.declared"}
    assert {"task", "code", "policy", "environment", "models", "outputs"} < declared
    assert "run.finished" not in {e.kind for e in events}


def test_a_run_that_ran_out_of_its_budget_has_failed() -> None:
    (end,) = (e for e in read(FILE | {"info": {"exit_status": "exit_cost"}})[-1:])
    assert json.loads(end.body)["status"] == "failed"


@pytest.mark.parametrize("bad", [[], {}, {"history": [1]}, {"history": [{"content": "x"}]}])
def test_what_is_no_trajectory_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match=r"a\.traj: this is not a trajectory"):
        read(bad)
