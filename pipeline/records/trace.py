"""From a decision back to the task that set it off, hop by hop, each with its evidence.

    decision → the artifacts it rests on → its attempt → earlier attempts, parents → the task

An artifact is looked for in the decision's own run, in the runs that it goes back to, and in its
children.  A trace stops at the first hop that does not hold, and says what that costs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipeline.errors import UsageError
from pipeline.records.capture import text_digest
from pipeline.records.completeness import COSTS, is_digest
from pipeline.records.reading import Row, RunView
from pipeline.records.timeline import body_of
from pipeline.retention.tombstones import removals_at
from schemas.parquet import evidences

MAX_HOPS = 64

_SEALED = "what it says cannot be told without the keys of its class"

ReadRun = Callable[[str], RunView]
"""Reads a run by its id; UsageError if there is none."""

FindChildren = Callable[[str], Iterable[str]]
"""The ids of the runs that name a run as their parent."""


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


def trace(
    view: RunView,
    read_run: ReadRun,
    decision: str | None,
    now_us: int,
    children: FindChildren = lambda run_id: (),
) -> tuple[Hop, ...]:
    """The hops from a decision (its event id; None: the last of the run) to the task snapshot.

    `now_us` tells what has expired from what was removed.  Raises UsageError for an unknown id.
    """
    hops: list[Hop] = []
    try:
        for hop in _Tracer(view, read_run, now_us, children).hops(decision):
            hops.append(hop)
    except _Broken as broken:
        hops.append(broken.hop)
    return tuple(hops)


class _Tracer:
    def __init__(
        self, view: RunView, read_run: ReadRun, now_us: int, children: FindChildren
    ) -> None:
        self._view, self._read_run, self._now_us = view, read_run, now_us
        self._children = children

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
        """The artifact that a decision names by digest, name or link, perhaps with its digest."""
        perhaps: list[Hop] = []
        for view in self._near():
            if (event := _produced(view, reference)) is not None:
                return self._checked(view, event, reference)
            for record, kept in _outputs_gone(view):
                gone = self._gone("artifact", "outputs", kept, record)
                if _answers(reference, kept["digest"], kept["uri"], kept["name"]):
                    raise _Broken(gone)
                if not kept["evidence"]["is_embedded"]:
                    perhaps.append(replace(gone, detail=f"perhaps one that is gone: {gone.detail}"))
            perhaps += [
                _sealed("artifact", event) for event in _artifacts(view) if not event["body"]
            ]
        if perhaps:
            raise _Broken(perhaps[0])
        hole = f"no artifact of the run or of those around it answers to {reference}"
        raise _Broken(self._hole("artifact", hole, "outputs", decision["attempt"]))

    def _checked(self, view: RunView, event: Row, reference: str) -> Hop:
        self._check_unsealed("artifact", event)
        digest = body_of(event).get("digest")
        if not is_digest(digest):
            hole = "an artifact without a digest: it may have changed since"
            raise _Broken(self._hole("artifact", hole, "outputs", event["attempt"]))
        _, is_pinned, wanted = reference.rpartition("@sha256:")
        if is_pinned and digest != f"sha256:{wanted}":
            hole = f"the artifact is not the one that the decision names: it is {digest}"
            raise _Broken(Hop("artifact", hole, False, **_place(event), cost=COSTS["outputs"]))
        self._check_unaltered(view, event)
        return _found("artifact", f"{event['name'] or ''} {digest}".strip(), event)

    def _near(self) -> Iterator[RunView]:
        """The decision's run, those that it goes back to, and its children."""
        views = {self._view.run_id: self._view}
        yield self._view
        wanted = _origins(self._view)
        while wanted and len(views) < MAX_HOPS:
            if (view := self._read(wanted.pop(0), views)) is not None:
                yield view
                wanted += _origins(view)
        for run_id in self._children(self._view.run_id):
            if len(views) < MAX_HOPS and (view := self._read(run_id, views)) is not None:
                yield view

    def _read(self, run_id: str, views: dict[str, RunView]) -> RunView | None:
        """A run that was not read yet; None where the lake does not have it."""
        if run_id in views:
            return None
        try:
            views[run_id] = self._read_run(run_id)
        except UsageError:
            return None
        return views[run_id]

    def _check_unaltered(self, view: RunView, event: Row) -> None:
        """What the record says of the event still is what is stored."""
        if event["body"] is None:
            return
        for evidence in evidences(view.records):
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
            self._check_unaltered(view, started)
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
                self._check_unaltered(view, event)
                return _found("task", text_digest(event["body"]), event)
        for record in view.records:
            task = record["task"]
            if record["attempt"] == attempt and task and task["evidence"]:
                raise _Broken(self._gone("task", "task", task, record))
        raise _Broken(self._hole("task", "no task snapshot was recorded", "task", attempt))

    def _check_unsealed(self, what: str, event: Row) -> None:
        if event["body"] is None:
            raise _Broken(_sealed(what, event))

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


def _artifacts(view: RunView) -> list[Row]:
    return [event for event in view.events if event["kind"] == "artifact.produced"]


def _sealed(what: str, event: Row) -> Hop:
    hole = "its content is sealed, and the keys are not here"
    return Hop(what, hole, False, **_place(event), cost=_SEALED)


def _produced(view: RunView, reference: str) -> Row | None:
    """The event of the artifact that a reference means: by its digest rather than by its name."""
    said = [(event, body_of(event)) for event in _artifacts(view)]
    exact = (event for event, body in said if body.get("digest") == reference)
    named = (
        event
        for event, body in said
        if _answers(reference, body.get("digest"), body.get("uri"), event["name"])
    )
    return next(exact, None) or next(named, None)


def _outputs_gone(view: RunView) -> Iterator[tuple[Row, Row]]:
    """(record, artifact) of what a record knows and the lake has no more."""
    known = {event["event_id"] for event in view.events}
    for record in view.records:
        for kept in record["outputs"]:
            if kept["evidence"]["event_id"] not in known:
                yield record, kept


def _answers(reference: str, digest: Any, uri: Any, name: Any) -> bool:
    bare = reference.rpartition("@sha256:")[0] or reference
    return reference == digest or bare in (uri, name)


def _origins(view: RunView) -> list[str]:
    """The runs that a run says it goes back to."""
    starts = [event for event in view.events if event["kind"] == "run.started"]
    named = [start[column] for start in starts for column in ("retry_of", "parent_run_id")]
    return list(dict.fromkeys(run_id for run_id in named if run_id))


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
