"""`inspect`: a log of Inspect as JSON (`--log-format json`); each of its samples is one run.

| in the sample | event |
| --- | --- |
| its id and epoch, with the log's `eval` | `run.started` |
| `input`, `target`, `files`, `setup` | `task.captured` |
| the log's `eval.revision`, `eval.packages`, `plan` | `policy.captured` |
| the log's `eval.sandbox`, `eval.packages` | `environment.captured` |
| an entry of `messages`, verbatim | `message`, after the step that it belongs to |
| an event `model` | `model.requested`, `model.responded` |
| an event `tool` | `tool.requested`, `tool.responded` |
| any other event, and each attachment | `other`, `kind_name` is `inspect.<its name>` |
| all else, such as `scores` | `run.finished`, `failed` if there is an `error` |

A sample without events tells its calls in `messages`.  What concerns all samples together
(`results`, `stats`, `reductions`) is not told.  Rows of the run record that the log says nothing of
are declared missing.  An event without a time of its own has that of the event before;
`captured_at` is the time of the import.  Ids are derived from the content of the file.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from pipeline.formats.base import Format, Source, derived_id, epoch_us, json_text, parse_json
from pipeline.formats.chat import Chat, is_message
from pipeline.formats.run import Run
from schemas import OTHER, RunEvent

_START: Final = re.compile(rb'\s*+\{\s*+"version"\s*+:\s*+\d++\s*+,')
_TASK: Final = ("input", "target", "choices", "files", "setup")
_LACKING: Final = ("code", "integrations", "outputs", "authority")
_IN_STEPS: Final = ("messages", "events", "transcript", "attachments", *_TASK)
_ASKED: Final = ("input", "tools", "tool_choice", "config")

Object = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Whether the log of an evaluation begins."""
    return bool(_START.match(head)) and b'"eval"' in head and b'"task"' in head


def read(source: Source) -> Iterator[RunEvent]:
    """One run for each sample."""
    content = source.whole()
    log = parse_json(source, content)
    samples = log.get("samples") if isinstance(log, dict) else None
    if not isinstance(samples, list) or not isinstance(log.get("eval"), dict):
        source.fail("this is not a log with samples")
    digest = hashlib.sha256(content).hexdigest()
    for index, sample in enumerate(samples):
        if not is_whole(sample):
            source.fail(f"sample {index} has no messages and events as Inspect writes them")
        run = Run(derived_id("inspect", digest, index), "inspect", source.captured_at_us)
        yield from told(log, sample, run)


def told(log: Object, sample: Object, run: Run) -> Iterator[RunEvent]:
    """The events of one whole sample; of `log` its `eval` and `plan` count."""
    yield from _Sample(log, sample, run).told()


def is_whole(sample: Any) -> bool:
    """Whether a sample has messages and events that can be told."""
    if not isinstance(sample, dict) or not isinstance(sample.get("messages"), list):
        return False
    events = _events(sample)
    is_told = isinstance(events, list) and all(isinstance(each, dict) for each in events)
    return is_told and all(map(is_message, sample["messages"]))


def _events(sample: Object) -> Any:
    """The events, which older logs keep in a transcript."""
    return sample.get("events", _within(sample, "transcript").get("events", []))


class _Sample:
    """Tells one sample as events of `run`."""

    def __init__(self, log: Object, sample: Object, run: Run) -> None:
        self._eval, self._plan = log["eval"], log.get("plan")
        self._sample, self._run = sample, run
        self._place = {_key(message): at for at, message in enumerate(sample["messages"])}
        self._next = 0

    def told(self) -> Iterator[RunEvent]:
        events = _events(self._sample)
        for time in (self._eval.get("created"), *(each.get("timestamp") for each in events[:1])):
            self._pass_to(time)
        yield from self._captured()
        yield from self._run.declare("missing", *_LACKING, *([] if events else ["models"]))
        yield from self._attachments()
        yield from self._steps(events) if events else self._chat()
        rest = {key: self._sample[key] for key in self._sample if key not in _IN_STEPS}
        status = "failed" if rest.get("error") else "completed"
        yield self._run.event("run.finished", {"status": status} | rest)

    def _captured(self) -> Iterator[RunEvent]:
        sample, given = self._sample, self._eval
        trigger = {"type": "import", "format": "inspect", "eval": given}
        identity = {"id": sample.get("id"), "epoch": sample.get("epoch")}
        yield self._run.event("run.started", {"trigger": trigger} | identity)
        task = {name: sample[name] for name in _TASK if name in sample}
        body = {"task": task, "source": given.get("task"), "captured_at": given.get("created")}
        yield self._run.event("task.captured", body)
        packages, revision = given.get("packages"), _within(given, "revision")
        version = _within(given, "packages").get("inspect_ai")
        policy: dict[str, Any] = {"harness": {"name": "inspect_ai", "version": version}}
        if revision.get("commit"):
            policy["factory_revision"] = revision["commit"]
        yield self._run.event("policy.captured", policy | {"plan": self._plan})
        if packages or given.get("sandbox"):
            environment = {"toolchain": packages, "sandbox": given.get("sandbox")}
            yield self._run.event("environment.captured", environment)
        else:
            yield from self._run.declare("missing", "environment")

    def _attachments(self) -> Iterator[RunEvent]:
        """What messages and events refer to as `attachment://<id>`, or `tc://<id>`."""
        older = _within(_within(self._sample, "transcript"), "content")
        for name, content in (_within(self._sample, "attachments") | older).items():
            body = {"id": name, "content": content}
            yield self._run.event(OTHER, body, kind_name="inspect.attachment")

    def _chat(self) -> Iterator[RunEvent]:
        chat = Chat(self._run)
        for message in self._sample["messages"]:
            yield from chat.events(message)

    def _steps(self, events: list[Object]) -> Iterator[RunEvent]:
        """Events in order, each message after the step that it belongs to."""
        for number, event in enumerate(events):
            self._pass_to(event.get("timestamp"))
            match event:
                case {"event": "model"}:
                    yield from self._model(event, f"model-{number}")
                case {"event": "tool"}:
                    yield from self._tool(event, number)
                case _:
                    kind_name = f"inspect.{event.get('event', 'event')}"
                    yield self._run.event(OTHER, event, kind_name=kind_name)
        yield from self._messages_before(len(self._sample["messages"]))

    def _model(self, event: Object, call_id: str) -> Iterator[RunEvent]:
        output, name = _within(event, "output"), event.get("model")
        choices = output.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        message = _within(choice, "message") if isinstance(choice, dict) else {}
        at = self._place.get(_key(message)) if message else None
        if at is not None:
            yield from self._messages_before(at)
        name = name if isinstance(name, str) else None
        provider = {"provider": name.partition("/")[0]} if name and "/" in name else {}
        asked = {key: event[key] for key in _ASKED if key in event}
        asked |= {"settings": asked.pop("config", None)}
        request = {"requested_model": name} | provider | asked
        yield self._run.event("model.requested", request, name=name, call_id=call_id)
        self._pass_to(event.get("completed"))
        rest = {key: event[key] for key in event if key not in _ASKED}
        answer = {"requested_model": name, "returned_model": output.get("model")} | provider
        answer |= {"usage": output.get("usage"), "request_id": output.get("id")}
        yield self._run.event("model.responded", rest | answer, name=name, call_id=call_id)
        if at is not None:
            yield from self._messages_before(at + 1)

    def _tool(self, event: Object, number: int) -> Iterator[RunEvent]:
        name, call_id = event.get("function"), event.get("id")
        name = name if isinstance(name, str) else None
        pair = {"name": name, "call_id": call_id if isinstance(call_id, str) else f"tool-{number}"}
        yield self._run.event("tool.requested", {"arguments": event.get("arguments")}, **pair)
        self._pass_to(event.get("completed"))
        rest = {key: event[key] for key in event if key not in ("arguments", "result")}
        body = {"content": event.get("result"), "status": "error" if event.get("error") else "ok"}
        yield self._run.event("tool.responded", rest | body, **pair)
        yield from self._messages_before(self._place.get(("tool", str(call_id)), -1) + 1)

    def _messages_before(self, end: int) -> Iterator[RunEvent]:
        """The messages before place `end` that were not told yet."""
        for message in self._sample["messages"][self._next : end]:
            yield self._run.event("message", message)
        self._next = max(self._next, end)

    def _pass_to(self, time: Any) -> None:
        with suppress(TypeError, ValueError):
            self._run.at_us = epoch_us(time)


def _key(message: Object) -> tuple[str, str]:
    """What a message is known by: its call, its id, or in older logs what it says."""
    role = str(message.get("role"))
    given = message.get("tool_call_id") if role == "tool" else message.get("id")
    return role, str(given or json_text(message.get("content")))


def _within(value: Object, name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


FORMAT: Final = Format("inspect", sniff, read)
