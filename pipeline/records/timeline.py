"""A run as a list of steps: what happened, when, how long it took, and what was masked in it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.records.body import Body
from pipeline.records.reading import Row, RunView, is_numbered


@dataclass(frozen=True, slots=True)
class Step:
    """One event.

    `after_s` counts from the attempt's first event; `took_ms` is the time since its request,
    `tokens` what a model's answer counts (in, out), `state` that of an effect or a result,
    `masks` the changes to its body.  Of an event without a number `sequence` is its place among
    those of the attempt that are here.
    """

    attempt: int
    sequence: int
    event_id: str
    after_s: float
    kind: str
    name: str
    took_ms: int | None
    tokens: tuple[int, int] | None
    state: str
    masks: int


def timeline(view: RunView) -> tuple[Step, ...]:
    """The steps of all attempts, in order."""
    started: dict[int, datetime] = {}
    for event in view.events:
        at = started.setdefault(event["attempt"], event["occurred_at"])
        started[event["attempt"]] = min(at, event["occurred_at"])
    requests = dict(_requests(view.events))
    effects = _effect_states(view.events)
    places = Counter[int]()
    steps = []
    for event in view.events:
        place, places[event["attempt"]] = places[event["attempt"]], places[event["attempt"]] + 1
        number = event["sequence"] if is_numbered(event) else place
        steps.append(_step(event, number, started, requests, effects))
    return tuple(steps)


def body_of(event: Row) -> Mapping[str, Any]:
    """The body as an object; empty if it is none."""
    return Body(event["body"]).fields


_Call = tuple[int, str, str]


def _call(event: Row) -> _Call | None:
    group, _, _ = event["kind"].partition(".")
    return (event["attempt"], group, event["call_id"]) if event["call_id"] else None


def _requests(events: Iterable[Row]) -> Iterator[tuple[_Call, datetime]]:
    for event in events:
        call = _call(event)
        if call and event["kind"].endswith((".requested", ".intended")):
            yield call, event["occurred_at"]


def _effect_states(events: Iterable[Row]) -> dict[str, str]:
    """The state of each intended effect, by the id of its event."""
    completed = {_call(event) for event in events if event["kind"] == "effect.completed"}
    return {
        event["event_id"]: "completed" if _call(event) in completed else "unknown"
        for event in events
        if event["kind"] == "effect.intended"
    }


def _step(
    event: Row,
    number: int,
    started: Mapping[int, datetime],
    requests: Mapping[_Call, datetime],
    effects: Mapping[str, str],
) -> Step:
    body, call = body_of(event), _call(event)
    took_ms = None
    if call and event["kind"].endswith((".responded", ".completed")) and call in requests:
        took_ms = round((event["occurred_at"] - requests[call]).total_seconds() * 1000)
    state = effects.get(event["event_id"]) or body.get("status")
    masks = [each for each in event["redactions"] if each["path"][:1] in ("", "/")]
    return Step(
        attempt=event["attempt"],
        sequence=number,
        event_id=event["event_id"],
        after_s=(event["occurred_at"] - started[event["attempt"]]).total_seconds(),
        kind=event["kind_name"] or event["kind"],
        name=event["name"] or "",
        took_ms=took_ms,
        tokens=_tokens(body),
        state=state if isinstance(state, str) else "",
        masks=len(masks),
    )


def _tokens(body: Mapping[str, Any]) -> tuple[int, int] | None:
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("input_tokens", "output_tokens")]
    found = [count if isinstance(count, int) else 0 for count in counts]
    return (found[0], found[1]) if any(found) else None
