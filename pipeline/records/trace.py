"""From a decision back to the task that set it off, hop by hop, each with its evidence.

    decision → the artifacts it rests on → its attempt → earlier attempts, parents → the task

A trace stops at the first hop that does not hold, and says what that costs.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.errors import UsageError
from pipeline.records.capture import text_digest
from pipeline.records.completeness import COSTS, is_digest
from pipeline.records.reading import Row, RunView
from pipeline.records.timeline import body_of
from pipeline.retention.tombstones import removals_at

MAX_HOPS = 64

_SEALED = "what it says cannot be told without the keys of its class"

ReadRun = Callable[[str], RunView]
"""Reads a run by its id; UsageError if there is none."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a trace; without `holds` it is where the trace breaks, and `cost` says what that
    means.  `event_id`, `file` and `offset` are the evidence, where there is any."""

    what: str
    detail: str
    holds: bool
    run_id: str
    attempt: int
    event_id: str | None = None
    file: str | None = None
    offset: int | None = None
    cost: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The hop as plain values."""
        return asdict(self)


class _Broken(Exception):
    def __init__(self, hop: Hop) -> None:
        super().__init__(hop.what)
        self.hop = hop


def trace(view: RunView, read_run: ReadRun, decision: str | None, now_us: int) -> tuple[Hop, ...]:
    """The hops from a decision (its event id; None: the last of the run) to the task snapshot.

    `now_us` tells what has expired from what was removed.  Raises UsageError for an unknown id.
    """
    hops: list[Hop] = []
    try:
        for hop in _Tracer(view, read_run, now_us).hops(decision):
            hops.append(hop)
    except _Broken as broken:
        hops.append(broken.hop)
    return tuple(hops)


class _Tracer:
    def __init__(self, view: RunView, read_run: ReadRun, now_us: int) -> None:
        self._view, self._read_run, self._now_us = view, read_run, now_us

    def hops(self, decision_id: str | None) -> Iterator[Hop]:
        decision = self._decision(decision_id)
        self._check_unsealed("decision", decision)
        body = body_of(decision)
        named = str(body.get("decision") or "a decision")
        yield _found("decision", f"“{named}” by {body.get('actor') or 'nobody named'}", decision)
        yield from self._artifacts(decision, body)
        yield from self._origin(decision["attempt"])

    def _decision(self, decision_id: str | None) -> Row:
        decisions = [event for event in self._view.events if event["kind"] == "decision.made"]
        for event in reversed(decisions):
            if decision_id in (None, event["event_id"]):
                return event
        for record in reversed(self._view.records):
            for kept in record["authority"]["decisions"]:
                if decision_id in (None, kept["evidence"]["event_id"]):
                    raise _Broken(self._gone("decision", "authority", kept, record))
        if decision_id is not None:
            raise UsageError(
                "the run has no decision with this id",
                code="unknown-decision",
                hint="`redactory runs show` lists its events",
            )
        attempt = self._view.events[-1]["attempt"] if self._view.events else 1
        raise _Broken(self._hole("decision", "no decision was recorded", "authority", attempt))

    def _artifacts(self, decision: Row, body: Any) -> Iterator[Hop]:
        references = body.get("artifacts")
        if not isinstance(references, list):
            raise _Broken(
                self._hole("artifact", "not said what it rests on", "outputs", decision["attempt"])
            )
        for reference in map(str, references):
            yield self._artifact(reference, decision)

    def _artifact(self, reference: str, decision: Row) -> Hop:
        """The artifact that a decision names by digest, name or link."""
        for event in self._view.events:
            if event["kind"] == "artifact.produced":
                self._check_unsealed("artifact", event)
            body = body_of(event)
            known = (body.get("digest"), body.get("uri"), event["name"])
            if event["kind"] != "artifact.produced" or reference not in known:
                continue
            if not is_digest(body.get("digest")):
                hole = "an artifact without a digest: it may have changed since"
                raise _Broken(self._hole("artifact", hole, "outputs", event["attempt"]))
            self._check_unaltered(event)
            return _found("artifact", f"{event['name'] or ''} {body['digest']}".strip(), event)
        for record in self._view.records:
            for kept in record["outputs"]:
                if reference in (kept["digest"], kept["uri"], kept["name"]):
                    raise _Broken(self._gone("artifact", "outputs", kept, record))
        hole = f"no artifact of the run answers to {reference}"
        raise _Broken(self._hole("artifact", hole, "outputs", decision["attempt"]))

    def _check_unaltered(self, event: Row) -> None:
        """What the record says of the event still is what is stored."""
        if event["body"] is None:
            return
        for evidence in _evidences(self._view.records):
            if evidence["event_id"] == event["event_id"] and evidence["digest"]:
                if evidence["digest"] == text_digest(event["body"]):
                    continue
                hole = "the stored event is not the one the record was made from"
                place = _place(event)
                raise _Broken(Hop("evidence", hole, False, **place, cost=COSTS["outputs"]))

    def _origin(self, attempt: int) -> Iterator[Hop]:
        """Earlier attempts and parents, up to where the task was captured first."""
        view, at = self._view, attempt
        for _ in range(MAX_HOPS):
            self._view = view
            events = [event for event in view.events if event["attempt"] == at]
            started = next((e for e in events if e["kind"] == "run.started"), None)
            if started is None:
                hole = self._without_start(view, at)
                raise _Broken(hole)
            self._check_unaltered(started)
            yield _found("attempt", f"attempt {at} of {view.run_id}", started)
            if started["retry_of"] and at > 1 and started["retry_of"] == view.run_id:
                at -= 1
            elif origin := started["retry_of"] or started["parent_run_id"]:
                view, at = self._other(origin, started), 0
                at = max((event["attempt"] for event in view.events), default=1)
            else:
                yield self._task(view, at)
                return
        raise _Broken(self._hole("attempt", "retries or parents without end", "identity", at))

    def _without_start(self, view: RunView, attempt: int) -> Hop:
        for record in view.records:
            evidence = record["identity"]["evidence"]
            if record["attempt"] == attempt and evidence:
                return self._gone("attempt", "identity", {"evidence": evidence}, record)
        return self._hole("attempt", "its start was not recorded", "identity", attempt)

    def _other(self, run_id: str, event: Row) -> RunView:
        try:
            return self._read_run(run_id)
        except UsageError as error:
            what = "does not have" if error.code == "unknown-run" else "does not have any more"
            hole = f"the lake {what} run {run_id}, which this one goes back to"
            place = _place(event)
            raise _Broken(Hop("attempt", hole, False, **place, cost=COSTS["identity"])) from None

    def _task(self, view: RunView, attempt: int) -> Hop:
        for event in view.events:
            if event["kind"] == "task.captured" and event["attempt"] == attempt:
                self._check_unsealed("task", event)
                self._check_unaltered(event)
                return _found("task", text_digest(event["body"]), event)
        for record in view.records:
            task = record["task"]
            if record["attempt"] == attempt and task and task["evidence"]:
                raise _Broken(self._gone("task", "task", task, record))
        raise _Broken(self._hole("task", "no task snapshot was recorded", "task", attempt))

    def _check_unsealed(self, what: str, event: Row) -> None:
        if event["body"] is None:
            hole = "its content is sealed, and the keys are not here"
            raise _Broken(Hop(what, hole, False, **_place(event), cost=_SEALED))

    def _hole(self, what: str, detail: str, row: str, attempt: int) -> Hop:
        if self._view.removals:
            last = self._view.removals[-1]
            how = "were erased" if last.why == "erase" else "expired"
            detail = f"{detail} in what is left: rows of the run {how}"
        return Hop(what, detail, False, self._view.run_id, attempt, cost=COSTS[row])

    def _gone(self, what: str, row: str, kept: Any, record: Row) -> Hop:
        """An event that the record knows and the lake has no more."""
        evidence = kept["evidence"]
        return Hop(
            what,
            self._why_gone(evidence, record),
            False,
            record["run_id"],
            record["attempt"],
            evidence["event_id"],
            record["file"],
            evidence["kafka_offset"],
            COSTS[row],
        )

    def _why_gone(self, evidence: Row, record: Row) -> str:
        """By its tombstone, else by its deadline."""
        offset = evidence["kafka_offset"]
        place = record["kafka_topic"], record["kafka_partition"]
        reasons = {each.why for each in removals_at(self._view.removals, *place, offset, offset)}
        if "erase" in reasons:
            return "its event was erased"
        has_expired = evidence["deadline"].timestamp() * 1e6 <= self._now_us
        return "its event has expired" if has_expired or reasons else "its event was removed"


def _found(what: str, detail: str, event: Row) -> Hop:
    return Hop(what, detail, True, **_place(event))


def _place(event: Row) -> dict[str, Any]:
    return {
        "run_id": event["run_id"],
        "attempt": event["attempt"],
        "event_id": event["event_id"],
        "file": event["file"],
        "offset": event["kafka_offset"],
    }


def _evidences(value: Any) -> Iterator[Row]:
    if isinstance(value, dict):
        if "is_embedded" in value:
            yield value
        for item in value.values():
            yield from _evidences(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _evidences(item)
