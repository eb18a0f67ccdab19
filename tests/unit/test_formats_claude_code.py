"""Claude Code transcripts: every line is one event, verbatim."""

import gzip
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.formats import FORMATS, Source, open_source
from schemas import RunEvent

FORMAT = FORMATS["claude-code"]
NOW_US = 1_772_366_400_000_000
AT = "2026-02-27T10:00:00.250Z"
AT_US = 1_772_186_400_250_000


def line(kind: str = "user", content: Any = "hello", **more: Any) -> str:
    turn = {"role": kind, "content": content} | ({"model": "m-1"} if kind == "assistant" else {})
    fields = {"type": kind, "sessionId": "s-1", "uuid": "u-1", "timestamp": AT, "message": turn}
    return json.dumps({k: v for k, v in (fields | more).items() if v is not ...})


def use(call_id: str, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"command": "ls"}}


def result(call_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


def read_all(*lines: str) -> list[RunEvent]:
    content = "\n".join(lines).encode()
    return list(FORMAT.read(Source(BytesIO(content), "session.jsonl", NOW_US)))


def read(*lines: str) -> list[RunEvent]:
    """The events of the lines, without what is declared before them."""
    return [event for event in read_all(*lines) if event.kind != "input.declared"]


def test_what_the_format_has_no_place_for_is_declared_first() -> None:
    events = read_all(line())
    assert [event.sequence for event in events] == list(range(8))
    declared = [json.loads(event.body) for event in events[:-1]]
    assert {each["state"] for each in declared} == {"missing"}
    assert {"code", "task", "authority"} < {each["input"] for each in declared}


def test_a_line_becomes_an_event_of_the_kind_its_content_shows() -> None:
    lines = [
        line(),
        line("assistant", [{"type": "text", "text": "hi"}]),
        line("assistant", [use("call-1", "Bash")]),
        line("user", [result("call-1")]),
        line("system", message=...),
    ]
    events = read(*lines)
    assert [(e.kind, e.kind_name, e.name, e.call_id) for e in events] == [
        ("message", None, None, None),
        ("model.responded", None, "m-1", None),
        ("tool.requested", None, "Bash", "call-1"),
        ("tool.responded", None, "Bash", "call-1"),
        ("other", "claude-code.system", None, None),
    ]
    assert [e.body for e in events] == lines
    assert [e.sequence for e in events] == [7, 8, 9, 10, 11]
    assert {(e.run_id, e.occurred_at, e.captured_at) for e in events} == {("s-1", AT_US, NOW_US)}


def test_a_line_is_kept_to_the_byte() -> None:
    odd = line()[:-1] + ',  "n": 1.10, "big": 123456789012345678901234567890, "é": "\\u00e9"}'
    assert read(odd)[0].body == odd


def test_further_calls_in_a_line_are_told_by_events_that_point_at_it() -> None:
    text = {"type": "text", "text": "both"}
    several = line("assistant", [text, use("a", "Read"), use("b", "Grep")])
    whole, first, second = read(several)
    assert (whole.kind, whole.body) == ("message", several)
    assert [(e.kind, e.name, e.call_id) for e in (first, second)] == [
        ("tool.requested", "Read", "a"),
        ("tool.requested", "Grep", "b"),
    ]
    pointed = json.loads(second.body)
    assert pointed == {"event_id": whole.event_id, "pointer": "/message/content/2"}


def test_a_sub_agent_is_a_run_of_its_own_below_its_session() -> None:
    (child,) = read(line(isSidechain=True, uuid="u-7"))
    (other,) = read(line(isSidechain=True, uuid="u-8"))
    assert child.parent_run_id == other.parent_run_id == "s-1"
    assert len({"s-1", child.run_id, other.run_id}) == 3


def test_a_line_without_a_time_takes_the_one_before_it() -> None:
    summary = json.dumps({"type": "summary", "summary": "x", "leafUuid": "u"})
    later = line(timestamp="2026-02-27T11:00:01+01:00")
    events = read(summary, line(), later, summary)
    assert [e.occurred_at - AT_US for e in events] == [0, 0, 750_000, 750_000]
    assert read(summary)[0].occurred_at == NOW_US


def test_blank_lines_and_carriage_returns_are_no_content() -> None:
    first, second = read(line() + "\r", "", line() + "\r\n")
    assert first.body == second.body == line()


def test_a_transcript_that_grew_keeps_its_ids() -> None:
    assert read(line(), line("assistant"))[0] == read(line())[0]


BAD_LINES = {
    "not-json": ("{", 2),
    "not-an-object": ("[]", 2),
    "without-type": ("{}", 2),
    "a-key-twice": ('{"type": "a", "type": "b"}', 2),
    "time-without-zone": (line(timestamp="2026-02-27T10:00:00"), 2),
    "time-a-number": (line(timestamp=7), 2),
}


@pytest.mark.parametrize(("bad", "number"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_named_and_nothing_of_it_is_told(bad: str, number: int) -> None:
    with pytest.raises(InputError) as caught:
        read(line(), bad)
    assert str(caught.value).startswith(f"session.jsonl:{number}: ")
    assert "2026" not in str(caught.value)


def test_a_session_without_an_id_does_not_pile_up_in_memory() -> None:
    nameless = json.dumps({"type": "summary"})
    with pytest.raises(InputError, match="session id"):
        read(*[nameless] * 1001)


def test_all_lines_of_the_real_sessions_are_there_once_and_in_order(shared: Path) -> None:
    events, runs = 0, set()
    for path in sorted((shared / "samples/runs/claude-code").glob("*.jsonl.gz")):
        with open_source(path, NOW_US) as (source, _):
            found = list(FORMAT.read(source))
        told = [e.body for e in found if e.kind != "input.declared"]
        assert told == gzip.decompress(path.read_bytes()).decode().splitlines()
        assert [e.sequence for e in found] == list(range(len(found)))
        events += len({e.event_id for e in found})
        runs |= {e.run_id for e in found}
    assert (events, len(runs)) == (524 + 5 * 7, 5)
