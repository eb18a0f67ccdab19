"""tau-bench files: one trajectory is one run, and the file can be had again from its events."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source, open_source
from schemas import RunEvent, decode, encode

FORMAT = FORMATS["tau-bench"]
NOW_US = 1_772_366_400_000_000
MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Größe \U0001f7e2 1.10"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c",
                "type": "function",
                "function": {"name": "look", "arguments": '{"n": 1.10}'},
            },
            {
                "id": "d",
                "type": "function",
                "function": {"name": "book_reservation", "arguments": "{}"},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "d", "name": "book_reservation", "content": "booked"},
    {"role": "tool", "tool_call_id": "c", "name": "look", "content": "seen"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "think", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "name": "think", "content": ""},
]
TRAJECTORY = {
    "task_id": 3,
    "trial": 1,
    "reward": 0.0035475000000000003,
    "info": {"task": {"user_id": "u"}, "source": "user"},
    "traj": MESSAGES,
}


LACKING = ("code", "policy", "environment", "integrations", "models", "outputs")


def read(content: bytes) -> list[RunEvent]:
    return list(FORMAT.read(Source(BytesIO(content), "runs.json", NOW_US)))


def rebuilt(events: Iterable[RunEvent]) -> list[dict[str, Any]]:
    """The trajectories, from nothing but their events."""
    runs: dict[str, dict[str, Any]] = defaultdict(lambda: {"info": {}, "traj": []})
    for event in events:
        run, body = runs[event.run_id], json.loads(event.body)
        match event.kind:
            case "run.started":
                del body["trigger"]
                run.update(body)
            case "task.captured":
                run["info"]["task"] = body["task"]
            case "message" | "tool.responded" | "effect.completed":
                run["traj"].append(body)
            case "run.finished":
                run["info"].update(body["info"])
                run["reward"] = body["reward"]
    return list(runs.values())


def test_a_trajectory_is_a_run_told_in_order() -> None:
    events = read(json.dumps([TRAJECTORY]).encode())
    assert [(event.kind, event.name, event.call_id) for event in events] == [
        ("run.started", None, None),
        ("task.captured", None, None),
        *(("input.declared", name, None) for name in LACKING),
        ("message", None, None),
        ("message", None, None),
        ("message", None, None),
        ("tool.requested", "look", "c"),
        ("effect.intended", "book_reservation", "d"),
        ("effect.completed", "book_reservation", "d"),
        ("tool.responded", "look", "c"),
        ("message", None, None),
        ("tool.requested", "think", "c-2"),
        ("tool.responded", "think", "c-2"),
        ("run.finished", None, None),
    ]
    assert [event.sequence for event in events] == list(range(19))
    assert len({event.run_id for event in events}) == 1
    assert {(event.occurred_at, event.captured_at) for event in events} == {(NOW_US, NOW_US)}


def test_arguments_stay_the_text_they_are() -> None:
    events = read(json.dumps([TRAJECTORY]).encode())
    requested = next(event for event in events if event.kind == "tool.requested")
    assert json.loads(requested.body) == {"arguments": '{"n": 1.10}'}
    intended = next(event for event in events if event.kind == "effect.intended")
    assert json.loads(intended.body) == {
        "effect_id": "d",
        "actor": "assistant",
        "arguments": "{}",
    }


def test_the_file_can_be_had_again_from_its_events() -> None:
    assert rebuilt(read(json.dumps([TRAJECTORY, TRAJECTORY]).encode())) == [TRAJECTORY, TRAJECTORY]


def test_emitting_a_file_twice_gives_the_same_events() -> None:
    content = json.dumps([TRAJECTORY, TRAJECTORY]).encode()
    events = read(content)
    assert read(content) == events
    assert len({event.event_id for event in events}) == len(events) == 38
    ids = {event.run_id for event in events}
    assert not ids & {event.run_id for event in read(content + b"\n")}


BAD_FILES = {
    "not-json": b"[{",
    "not-utf8": b'[{"task_id": "\xff"}]',
    "an-object": b"{}",
    "an-entry-without-messages": b'[{"task_id": 1}]',
    "a-message-without-role": b'[{"traj": [{"content": "x"}]}]',
    "a-result-without-call": b'[{"traj": [{"role": "tool", "content": "x"}]}]',
    "a-call-without-name": b'[{"traj": [{"role": "a", "tool_calls": [{"id": "1"}]}]}]',
    "a-key-twice": b'[{"traj": [], "traj": []}]',
    "nan": b'[{"traj": [], "reward": NaN}]',
    "nested-without-end": b"[" * 200_000,
}


@pytest.mark.parametrize("content", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_file_is_named_and_nothing_of_it_is_told(content: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(content)
    assert str(caught.value).startswith("runs.json: ")
    assert "task_id" not in str(caught.value)


def test_half_a_surrogate_pair_stays_the_escape_it_was() -> None:
    message = {"role": "user", "content": "\ud83d"}
    events = read(json.dumps([TRAJECTORY | {"traj": [message]}]).encode())
    body = next(event.body for event in events if event.kind == "message")
    assert body == '{"role":"user","content":"\\ud83d"}'
    assert [decode(encode(event)) for event in events] == events


@pytest.fixture(scope="module")
def airline(shared: Path) -> tuple[list[dict[str, Any]], list[RunEvent]]:
    path = shared / "samples/runs/tau-bench/gpt-4o-airline.json.gz"
    with open_source(path, NOW_US) as (source, _):
        return json.loads(gzip.decompress(path.read_bytes())), list(FORMAT.read(source))


def test_two_hundred_real_trajectories_can_be_had_again(
    airline: tuple[list[dict[str, Any]], list[RunEvent]],
) -> None:
    trajectories, events = airline
    assert len(trajectories) == 200
    assert rebuilt(events) == trajectories


def test_every_real_call_has_one_request_and_one_result(
    airline: tuple[list[dict[str, Any]], list[RunEvent]],
) -> None:
    trajectories, events = airline
    calls = sum(len(m.get("tool_calls") or ()) for t in trajectories for m in t["traj"])
    pairs: dict[tuple[str, str], list[tuple[str, str | None]]] = defaultdict(list)
    for event in events:
        if event.call_id is not None:
            pairs[event.run_id, event.call_id].append((event.kind, event.name))
    assert len(pairs) == calls == 1164
    for (first, name), (second, same_name) in pairs.values():
        assert (first, second) in (
            ("tool.requested", "tool.responded"),
            ("effect.intended", "effect.completed"),
        )
        assert name == same_name
