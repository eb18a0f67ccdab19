"""`openhands`: a saved trajectory (a JSON list, one run), or an `output.jsonl` (a run a line).

Every entry of a history is the body of exactly one event, verbatim and in order:

| entry | event |
| --- | --- |
| action `message` | `message` |
| any other action of the agent that is a call of a tool | `tool.requested`, `name` is the tool |
| the observation that it causes | `tool.responded`, with the same `call_id` |
| observation `error` | `error` |
| anything else, such as a change of state | `other`, `kind_name` is `openhands.<its name>` |

An answer of the model stands in the calls that it asks for; for the first of them it is told as
`model.responded`, which names model, request and tokens and points at it.  The first message of the
user is the task; a line of an `output.jsonl` has it as `issue` and `instruction`, with repository,
commit and patch.  A line ends with its outcome, a list if the agent's last action is `finish`.
Rows of the run record that the file says nothing of are declared missing.  Times have no zone and
are taken as UTC; an entry without one has that of the entry before, at first that of the import.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any, Final

from pipeline.formats.base import Format, Source, derived_id, epoch_us, parse_json
from pipeline.formats.run import Run
from schemas import OTHER, RunEvent

_LIST: Final = re.compile(rb"\s*+\[\s*+\{")
_LINE: Final = re.compile(rb'\s*+\{\s*+"(?:issue|instance_id)"\s*+:')
_NO_CALLS: Final = frozenset({"message", "change_agent_state", "null", "recall", "system"})
_TRIGGER: Final = {"trigger": {"type": "import", "format": "openhands"}}
_TOLD: Final = ("history", "issue", "instruction", "base_commit", "git_patch")
_LACKING: Final = ("policy", "environment", "integrations", "authority")

Entry = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Whether a list of actions and observations begins, or a line that holds one."""
    if _LIST.match(head):
        return b'"source"' in head and (b'"action"' in head or b'"observation"' in head)
    return bool(_LINE.match(head)) and b'"instruction"' in head


def read(source: Source) -> Iterator[RunEvent]:
    """One run for a list, one for each line of others."""
    content = source.whole()
    digest = hashlib.sha256(content).hexdigest()
    if content.lstrip()[:1] == b"[":
        history = _checked(source, parse_json(source, content), line=None)
        yield from _saved(history, Run(derived_id("openhands", digest), *_by(source)))
        return
    for number, text in enumerate(content.splitlines(), start=1):
        if text.strip():
            line = parse_json(source, text, line=number)
            given = line.get("history") if isinstance(line, dict) else None
            history = _checked(source, given, line=number)
            run = Run(derived_id("openhands", digest, number), *_by(source))
            yield from _resolved(line, history, run)


def _by(source: Source) -> tuple[str, int]:
    return "openhands", source.captured_at_us


def _checked(source: Source, history: Any, line: int | None) -> list[Entry]:
    """The entries of a history; some versions pair each action with its observation."""
    given = history if isinstance(history, list) else [None]
    pairs = (each if isinstance(each, list) else [each] for each in given)
    entries: list[Any] = [entry for pair in pairs for entry in pair]
    if not all(isinstance(entry, dict) for entry in entries):
        source.fail("this is not a history of actions and observations", line=line)
    return entries


def _saved(history: Sequence[Entry], run: Run) -> Iterator[RunEvent]:
    told = _History(run)
    run.at_us = next((at for at in map(_time_us, history) if at is not None), run.at_us)
    yield run.event("run.started", _TRIGGER)
    first = next((entry for entry in history if _says(entry, "user")), None)
    if first is not None:
        task = {"task": _content(first), "source": "the first message of the user"}
        yield run.event("task.captured", task)
    else:
        yield from run.declare("missing", "task")
    yield from run.declare("missing", "code", "outputs", *_LACKING)
    yield from told.events(history)
    actions = [entry["action"] for entry in history if _name(entry, "action")]
    if "finish" in actions[-1:]:
        yield run.event("run.finished", {"status": "completed"})


def _resolved(line: Mapping[str, Any], history: Iterable[Entry], run: Run) -> Iterator[RunEvent]:
    yield run.event("run.started", _TRIGGER)
    task = {key: line[key] for key in ("issue", "instance_id", "instruction") if line.get(key)}
    yield run.event("task.captured", {"task": task, "source": "issue"})
    issue = line.get("issue")
    owner, repo = (issue.get("owner"), issue.get("repo")) if isinstance(issue, dict) else ("", "")
    code = {"repository": f"{owner}/{repo}"} if owner and repo else {}
    code |= {"commit": line["base_commit"]} if line.get("base_commit") else {}
    if code:
        yield run.event("workspace.captured", code)
    else:
        yield from run.declare("missing", "code")
    yield from run.declare("missing", *_LACKING)
    yield from _History(run).events(history)
    if patch := line.get("git_patch"):
        yield run.event("artifact.produced", {"purpose": "patch", "content": patch}, name="patch")
    else:
        yield from run.declare("missing", "outputs")
    info = {key: line[key] for key in line if key not in _TOLD}
    has_failed = line.get("success") is False or bool(line.get("error"))
    yield run.event("run.finished", {"status": "failed" if has_failed else "completed"} | info)


class _History:
    """Tells entries as events of `run`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._calls: dict[str, tuple[str, str]] = {}
        self._last = ""
        self._answers: set[str] = set()

    def events(self, history: Iterable[Entry]) -> Iterator[RunEvent]:
        for number, entry in enumerate(history):
            self._run.at_us = self._run.at_us if (at := _time_us(entry)) is None else at
            action, observation = _name(entry, "action"), _name(entry, "observation")
            if action and action not in _NO_CALLS and entry.get("source", "agent") == "agent":
                yield from self._call(entry, action, str(entry.get("id", f"entry-{number}")))
            elif action == "message":
                yield self._run.event("message", entry)
            elif observation == "error":
                yield self._run.event("error", entry)
            elif observation and (call := self._caused(entry)):
                name, call_id = call
                yield self._run.event("tool.responded", entry, name=name, call_id=call_id)
            else:
                named = f"openhands.{action or observation or 'entry'}"
                yield self._run.event(OTHER, entry, kind_name=named)

    def _caused(self, entry: Entry) -> tuple[str, str] | None:
        """The call that an observation is the result of."""
        return self._calls.pop(str(entry.get("cause", self._last)), None)

    def _call(self, entry: Entry, action: str, at: str) -> Iterator[RunEvent]:
        asked = entry.get("tool_call_metadata")
        asked = asked if isinstance(asked, dict) else {}
        name, call_id = asked.get("function_name") or action, asked.get("tool_call_id")
        call = str(name), str(call_id or f"action-{at}")
        self._calls[at], self._last = call, at
        event = self._run.event("tool.requested", entry, name=call[0], call_id=call[1])
        yield event
        yield from self._answer(asked.get("model_response"), event.event_id)

    def _answer(self, answer: Any, event_id: str) -> Iterator[RunEvent]:
        """The model's answer that a call stands in, once."""
        if not isinstance(answer, dict) or str(answer.get("id")) in self._answers:
            return
        self._answers.add(str(answer.get("id")))
        pointer = "/tool_call_metadata/model_response"
        body: dict[str, Any] = {"event_id": event_id, "pointer": pointer}
        body |= {"returned_model": answer.get("model"), "request_id": answer.get("id")}
        yield self._run.event("model.responded", body | {"usage": answer.get("usage")})


def _name(entry: Entry, key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _says(entry: Entry, who: str) -> bool:
    return entry.get("action") == "message" and entry.get("source") == who


def _content(entry: Entry) -> Any:
    arguments = entry.get("args")
    return arguments.get("content") if isinstance(arguments, dict) else entry.get("message")


def _time_us(entry: Entry) -> int | None:
    with suppress(TypeError, ValueError):
        return epoch_us(entry.get("timestamp"), zone=UTC)
    return None


FORMAT: Final = Format("openhands", sniff, read)
