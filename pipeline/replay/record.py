"""A recorded run as a replay sees it: its calls with their answers, and what was said and made."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.emitter.calls import KINDS, OCCURRENCE, Answer, Boundary
from pipeline.emitter.policy import MatchingPolicy
from pipeline.replay.errors import Place
from schemas import RunEvent

NOTES: Final = ("message", "artifact.produced", "decision.made", "intervention")

_ASKED: Final[Mapping[str, Boundary]] = {kinds.asked: name for name, kinds in KINDS.items()}
_ANSWERED: Final[Mapping[str, Boundary]] = {kinds.answered: name for name, kinds in KINDS.items()}


@dataclass(slots=True)
class RecordedCall:
    """One call; `asked_at` and `answered_at` are places in the order of events."""

    place: Place
    boundary: Boundary
    name: str
    call_id: str
    request: Any
    asked_at: int
    key: str | None = None
    answer: Answer | None = None
    answered_at: int | None = None
    deadline_us: int | None = None
    withheld: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the run said, made or decided."""

    kind: str
    body: Any
    step: int


@dataclass(slots=True)
class RecordedRun:
    """One attempt at a run, masked.

    `key_ids` are those its masks may be written under, `files` those of a lake that hold its rows.
    Of a trial there are inputs and fixtures only: what came of the run is not known.
    """

    run_id: str
    attempt: int
    events: tuple[RunEvent, ...]
    calls: list[RecordedCall] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    task: Any = None
    matching: MatchingPolicy | None = None
    key_ids: tuple[str, ...] = ()
    deadline_us: int | None = None
    files: frozenset[str] = frozenset()
    status: str = ""
    failed_with: str = ""
    is_trial: bool = False

    @property
    def approvals(self) -> frozenset[str]:
        """Every approval that the run was given: none of them counts again."""
        bodies = (parsed(event.body) for event in self.events)
        given = (body.get("approval") for body in bodies if isinstance(body, dict))
        return frozenset(each for each in given if isinstance(each, str))


def recorded_run(
    events: Iterable[RunEvent],
    *,
    key_ids: Iterable[str] = (),
    deadlines_us: Mapping[str, int] | None = None,
) -> RecordedRun:
    """The run that these masked events of one attempt tell, in order of their sequence.

    `deadlines_us` are by event id (epoch microseconds).
    """
    ordered = tuple(sorted(events, key=lambda event: event.sequence))
    run = RecordedRun(ordered[0].run_id, ordered[0].attempt, ordered)
    deadlines_us = deadlines_us or {}
    run.deadline_us = min(deadlines_us.values(), default=None)
    ids = dict.fromkeys(key_ids)
    told = _Fold(run, deadlines_us)
    for position, event in enumerate(ordered):
        told.take(position, event)
    masking = told.started.get("masking")
    if isinstance(masking, dict) and masking.get("key_id"):
        ids = dict.fromkeys([str(masking["key_id"]), *ids])
    run.key_ids = tuple(key_id for key_id in ids if key_id)
    if not told.model_calls:  # steps are then the calls themselves
        for index, call in enumerate(run.calls):
            call.place = Place(index, call.boundary, call.name)
    return run


class _Fold:
    """Pairs the events of calls, and counts steps."""

    def __init__(self, run: RecordedRun, deadlines_us: Mapping[str, int]) -> None:
        self._run, self._deadlines_us = run, deadlines_us
        self._open: dict[tuple[str, str], RecordedCall] = {}
        self._bodies: dict[str, Any] = {}
        self.model_calls = 0
        self.started: Mapping[str, Any] = {}

    def take(self, position: int, event: RunEvent) -> None:
        body = self._bodies[event.event_id] = parsed(event.body)
        kind = event.kind_name or event.kind
        fields = body if isinstance(body, dict) else {}
        if kind in _ASKED:
            self._ask(position, event, _ASKED[kind], body)
        if kind in _ANSWERED:
            self._answer(position, event, _ANSWERED[kind], body)
        match kind:
            case "run.started":
                self.started = fields
            case "task.captured":
                self._run.task = fields.get("task", body)
            case "integration.captured" if event.name == "matching":
                self._run.matching = MatchingPolicy.parse(str(fields.get("matching_policy")))
            case "run.finished":
                self._run.status = str(fields.get("status"))
                if self._run.status == "failed":
                    self._run.failed_with = str(fields.get("summary"))
            case _ if kind in NOTES:
                self._run.notes.append(Note(kind, body, max(0, self.model_calls - 1)))

    def _ask(self, position: int, event: RunEvent, boundary: Boundary, body: Any) -> None:
        if boundary == "model":
            self.model_calls += 1
        name, call_id = event.name or "", event.call_id or event.event_id
        call = RecordedCall(
            Place(max(0, self.model_calls - 1), boundary, name),
            boundary,
            name,
            call_id,
            self._request(boundary, body),
            position,
            key=event.idempotency_key,
            withheld=_withheld(body),
        )
        call.deadline_us = self._deadlines_us.get(event.event_id)
        self._run.calls.append(call)
        self._open[boundary, call_id] = call

    def _answer(self, position: int, event: RunEvent, boundary: Boundary, body: Any) -> None:
        call = self._open.pop((boundary, event.call_id or event.event_id), None)
        if call is None:
            self.model_calls += boundary == "model"  # an importer that saw no request
            return
        given = body if boundary == "model" else self._given(body)
        call.answer = Answer(given, is_ok=given.get("status") != "error")
        call.answered_at, call.withheld = position, call.withheld or _withheld(body)
        ends_us = [call.deadline_us, self._deadlines_us.get(event.event_id)]
        call.deadline_us = min((each for each in ends_us if each is not None), default=None)

    def _request(self, boundary: Boundary, body: Any) -> Any:
        """The request as it is compared: of a tool or an effect its arguments."""
        if boundary == "model":
            return requested(body)
        if KINDS[boundary].asked == KINDS[boundary].answered:
            return {}
        if isinstance(body, dict) and "arguments" in body:
            return {"arguments": unpacked(body["arguments"])}
        block = self._block(body)
        return {"arguments": unpacked(block["input"])} if "input" in block else body

    def _given(self, body: Any) -> Mapping[str, Any]:
        if isinstance(body, dict) and "content" in body:
            return body
        block = self._block(body)
        status = "error" if block.get("is_error") is True else "ok"
        return {"content": block.get("content"), "status": status}

    def _block(self, body: Any) -> Mapping[str, Any]:
        """The block of a transcript's message that a call or a result is."""
        match body:
            case {"event_id": str(event_id), "pointer": str(pointer)}:
                found = at_pointer(self._bodies.get(event_id), pointer)
                return found if isinstance(found, dict) else {}
            case {"message": {"content": [*blocks]}}:
                calls = ("tool_use", "tool_result")
                return next(
                    (b for b in blocks if isinstance(b, dict) and b.get("type") in calls), {}
                )
        return {}


def requested(body: Any) -> Any:
    """The request in the body of an event that asks a model."""
    if not isinstance(body, dict):
        return body
    return {name: value for name, value in body.items() if name != OCCURRENCE}


def parsed(text: str) -> Any:
    """The value of a body."""
    return json.loads(text)


def unpacked(arguments: Any) -> Any:
    """Arguments that some models write as JSON text, as the object that they are."""
    if not (isinstance(arguments, str) and arguments.lstrip().startswith("{")):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def at_pointer(value: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901); None if there is none."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


def _withheld(body: Any) -> str:
    return str(body["withheld"]) if isinstance(body, dict) and set(body) == {"withheld"} else ""
