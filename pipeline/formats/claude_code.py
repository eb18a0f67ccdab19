"""`claude-code`: the JSON lines of a Claude Code transcript; a file is one run.

Every line is the body of exactly one event, verbatim and in order:

| line | event |
| --- | --- |
| `user`, with a `tool_result` block | `tool.responded`, `call_id` is the block's `tool_use_id` |
| `user` otherwise | `message` |
| `assistant`, with a `tool_use` block | `tool.requested`, `call_id` is the block's `id` |
| `assistant` otherwise | `model.responded`, `name` is the model |
| any other `type`, such as `summary` | `other`, `kind_name` is `claude-code.<type>` |

A line with several such blocks is a `message`, followed by one event for each block that points at
it: `{"event_id": <the line's event>, "pointer": "/message/content/<n>"}`; leave these out to have
the file again.  What the format has no place for is declared missing at the start.  A file does not
say that its run has ended, so no `run.finished` is made up.

The run is the `sessionId`.  A sub-agent's transcript (`isSidechain`) carries its parent's session:
it becomes a run of its own, with the session as `parent_run_id`.  `occurred_at` is the line's
`timestamp`, for a line without one that of the line before (at the top: of the first that has one);
`captured_at` is the time of the import.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from pipeline.formats.base import Format, Source, derived_id, epoch_us, parse_json
from pipeline.formats.run import Run
from schemas import OTHER, RunEvent

_LACKING: Final = (
    "code", "policy", "environment", "task", "integrations", "outputs", "authority"
)  # fmt: skip

PREAMBLE_MAX_LINES: Final = 1000
"""A session's id must stand within the first lines: they wait in memory for it."""


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Call:
    """A block that asks for a tool, or brings its result."""

    kind: str
    name: str | None
    call_id: str
    pointer: str


def sniff(head: bytes) -> bool:
    """Whether the first line is a turn of a session, or the summary of one."""
    first = head.lstrip().partition(b"\n")[0]
    is_turn = b'"sessionId"' in first and b'"type"' in first
    return first.startswith(b"{") and (is_turn or b'"leafUuid"' in first)


def read(source: Source) -> Iterator[RunEvent]:
    """The events of one transcript."""
    lines = _lines(source)
    preamble = []
    for line in lines:
        preamble.append(line)
        if isinstance(line.value.get("sessionId"), str):
            break
        if len(preamble) == PREAMBLE_MAX_LINES:
            source.fail("no session id in the first lines", line=line.number)
    if preamble:
        transcript = _Transcript(source, preamble)
        yield from transcript.run.declare("missing", *_LACKING)
        for line in chain(preamble, lines):
            yield from transcript.events(line)


def _lines(source: Source) -> Iterator[_Line]:
    for number, text in source.lines():
        value = parse_json(source, text, line=number)
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            source.fail("this is not an object with a type", line=number)
        yield _Line(number, text.decode(), value)


class _Transcript:
    """The events of one transcript, numbered as they come."""

    def __init__(self, source: Source, preamble: list[_Line]) -> None:
        self._source = source
        run_id, parent_id = _identity(preamble)
        self.run = Run(run_id, "claude-code", source.captured_at_us, parent_id)
        times = (self._time_us(line) for line in preamble)
        known = (time_us for time_us in times if time_us is not None)
        self.run.at_us = next(known, source.captured_at_us)
        self._tools: dict[str, str] = {}

    def events(self, line: _Line) -> Iterator[RunEvent]:
        time_us = self._time_us(line)
        self.run.at_us = self.run.at_us if time_us is None else time_us
        calls = list(self._calls(line))
        if len(calls) == 1:
            (call,) = calls
            yield self.run.event(call.kind, line.text, name=call.name, call_id=call.call_id)
            return
        event = self._whole_line(line, is_several=bool(calls))
        yield event
        for call in calls:
            body = {"event_id": event.event_id, "pointer": call.pointer}
            yield self.run.event(call.kind, body, name=call.name, call_id=call.call_id)

    def _calls(self, line: _Line) -> Iterator[_Call]:
        message = line.value.get("message")
        blocks = message.get("content") if isinstance(message, dict) else None
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            pointer = f"/message/content/{index}"
            match block:
                case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                    self._tools[call_id] = name
                    yield _Call("tool.requested", name, call_id, pointer)
                case {"type": "tool_result", "tool_use_id": str(call_id)}:
                    yield _Call("tool.responded", self._tools.get(call_id), call_id, pointer)

    def _whole_line(self, line: _Line, *, is_several: bool) -> RunEvent:
        match line.value:
            case {"type": "assistant", "message": {"model": str(model)}} if not is_several:
                return self.run.event("model.responded", line.text, name=model)
            case {"type": "user" | "assistant"}:
                return self.run.event("message", line.text)
            case _:
                kind_name = f"claude-code.{line.value['type']}"
                return self.run.event(OTHER, line.text, kind_name=kind_name)

    def _time_us(self, line: _Line) -> int | None:
        text = line.value.get("timestamp")
        if text is None:
            return None
        try:
            return epoch_us(text)
        except (TypeError, ValueError):
            self._source.fail("the timestamp is no ISO 8601 time with a zone", line=line.number)


def _identity(preamble: list[_Line]) -> tuple[str, str | None]:
    """The run's id and its parent's."""
    last = preamble[-1].value
    session = last.get("sessionId")
    if not isinstance(session, str):
        digest = hashlib.sha256(preamble[0].text.encode()).hexdigest()
        return derived_id("claude-code", digest), None
    if last.get("isSidechain") is not True:
        return session, None
    return derived_id("claude-code", session, str(last.get("agentId") or last.get("uuid"))), session


FORMAT: Final = Format("claude-code", sniff, read)
