"""OpenHands histories: every entry is one event, verbatim and in order."""

import json
from io import BytesIO
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source
from schemas import RunEvent

FORMAT = FORMATS["openhands"]
NOW_US = 1_772_366_400_000_000
AT = "2026-02-27T10:00:00.250000"
AT_US = 1_772_186_400_250_000


def called(tool: str, call_id: str, answer: str = "answer-1") -> dict[str, Any]:
    response = {"id": answer, "model": "m-1-2026", "usage": {"prompt_tokens": 7}}
    metadata = {"function_name": tool, "tool_call_id": call_id, "model_response": response}
    return {"tool_call_metadata": metadata}


SAVED = [
    {"id": 0, "source": "environment", "observation": "agent_state_changed", "timestamp": AT},
    {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it."}},
    {"id": 2, "source": "agent", "action": "run", "args": {"command": "ls"}, **called("bash", "c")},
    {"id": 3, "source": "agent", "action": "read", "args": {"path": "a"}, **called("edit", "d")},
    {"id": 4, "source": "agent", "observation": "read", "cause": 3, "content": "x"},
    {"id": 5, "source": "agent", "observation": "run", "cause": 2, "content": "a"},
    {"id": 6, "source": "agent", "observation": "error", "content": "no"},
    {"id": 7, "source": "agent", "action": "finish", "args": {}},
]
LINE = {
    "issue": {"owner": "o", "repo": "r", "number": 5},
    "instruction": "Fix it.",
    "base_commit": "",
    "git_patch": "diff",
    "history": [
        {"action": "message", "content": "Fix it."},
        {"action": "run", "command": "ls"},
        {"observation": "run", "content": "a"},
        {"action": "finish"},
    ],
    "success": True,
}


def read(content: bytes) -> list[RunEvent]:
    return list(FORMAT.read(Source(BytesIO(content), "out.json", NOW_US)))


def told(events: list[RunEvent]) -> list[tuple[str, str | None, str | None]]:
    declared = ("input.declared", "run.started")
    return [(e.kind_name or e.kind, e.name, e.call_id) for e in events if e.kind not in declared]


def test_calls_and_observations_are_paired_by_what_caused_them() -> None:
    events = read(json.dumps(SAVED).encode())
    assert told(events) == [
        ("task.captured", None, None),
        ("openhands.agent_state_changed", None, None),
        ("message", None, None),
        ("tool.requested", "bash", "c"),
        ("model.responded", None, None),
        ("tool.requested", "edit", "d"),
        ("tool.responded", "edit", "d"),
        ("tool.responded", "bash", "c"),
        ("error", None, None),
        ("tool.requested", "finish", "action-7"),
        ("run.finished", None, None),
    ]
    assert [e.sequence for e in events] == list(range(len(events)))
    assert {e.occurred_at for e in events} == {AT_US}


def test_every_entry_stands_verbatim_in_one_event() -> None:
    bodies = [json.loads(event.body) for event in read(json.dumps(SAVED).encode())]
    assert [body for body in bodies if "id" in body] == SAVED


def test_an_answer_of_the_model_points_at_the_call_it_stands_in() -> None:
    events = read(json.dumps(SAVED).encode())
    answer = json.loads(next(e for e in events if e.kind == "model.responded").body)
    (call,) = (e for e in events if e.event_id == answer["event_id"])
    assert (call.call_id, answer["returned_model"]) == ("c", "m-1-2026")
    assert (answer["request_id"], answer["usage"]) == ("answer-1", {"prompt_tokens": 7})


def test_a_line_of_output_is_a_run_with_its_issue_and_outcome() -> None:
    content = json.dumps(LINE).encode() + b"\n" + json.dumps(LINE | {"success": False}).encode()
    events = read(content)
    first, second = dict.fromkeys(event.run_id for event in events)
    assert told([event for event in events if event.run_id == first]) == [
        ("task.captured", None, None),
        ("workspace.captured", None, None),
        ("message", None, None),
        ("tool.requested", "run", "action-entry-1"),
        ("tool.responded", "run", "action-entry-1"),
        ("tool.requested", "finish", "action-entry-3"),
        ("artifact.produced", "patch", None),
        ("run.finished", None, None),
    ]
    bodies = {(e.run_id, e.kind): json.loads(e.body) for e in events}
    assert bodies[first, "task.captured"]["task"]["issue"] == LINE["issue"]
    assert bodies[first, "workspace.captured"] == {"repository": "o/r"}
    ends = [bodies[run, "run.finished"]["status"] for run in (first, second)]
    assert ends == ["completed", "failed"]


def test_a_pair_of_action_and_observation_is_two_entries() -> None:
    paired = LINE | {"history": [LINE["history"][:1], LINE["history"][1:3]]}
    kinds = [event.kind for event in read(json.dumps(paired).encode())]
    assert kinds.count("tool.requested") == kinds.count("tool.responded") == 1


@pytest.mark.parametrize("bad", [b"[1]", b'{"issue": {}, "history": 5}', b"[[[]]]", b"{}"])
def test_what_is_no_history_is_refused(bad: bytes) -> None:
    with pytest.raises(InputError, match="this is not a history"):
        read(bad)
