"""`otlp-json`, `otlp-proto` in a topic: each record is an export request with spans or logs.

So the Kafka exporter of an OpenTelemetry Collector writes them.  A trace comes in parts, and who
reads one record does not know the others: what is told of a span follows from the span alone, and
is the same whichever batch brings it, and however often.  It is what `otlp` tells, but for this:

| in the record | event |
| --- | --- |
| the root of a trace | `run.started`, `run.finished`: neither is told before it comes |
| a resource | `environment.captured` in each record; its id is the `resource` of spans and logs |
| logs of no trace | a run for each record |

Spans are not numbered: `sequence` is the time of an event in epoch microseconds, and no one can
tell from it whether one is missing.  A log has no identity: its place in the topic is its id.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pipeline.deadletters import CODES, NOT_OTLP
from pipeline.errors import InputError
from pipeline.formats.base import derived_id, faithful_json, json_text
from pipeline.formats.otlp_items import (
    LACKING,
    MALFORMED,
    Item,
    Moment,
    Trace,
    deal,
    has_failed,
    moments_of_log,
    moments_of_span,
    proto_reader,
    time_us,
)
from schemas import Producer, RunEvent

JSON: Final = "otlp-json"
PROTO: Final = "otlp-proto"

MAX_EVENTS: Final = 100_000
"""Events that one record may hold; a Collector's batch has thousands."""

_PRODUCER: Final = Producer("opentelemetry")

Place = tuple[str, int, int]
"""(topic, partition, offset)"""


def events_in(value: bytes, encoding: str, place: Place, received_us: int) -> list[RunEvent | None]:
    """The events of a record, those of each trace in the order of time; None for a span or log that
    is none.

    `received_us` is the time of what has no time (epoch microseconds).  Raises InputError, its code
    that of a dead letter, if the record is no request, or an empty one.
    """
    traces: dict[str, Trace] = {}
    found: list[RunEvent | None] = []
    try:
        left_out = deal(_request(value, encoding), traces, is_strict=False)
        for trace_id, trace in traces.items():
            found += _Part(trace_id, trace, place, received_us).told()
    except MALFORMED:
        raise _unreadable(NOT_OTLP) from None
    found += [None] * left_out
    if not found:
        raise _unreadable(NOT_OTLP)
    if len(found) > MAX_EVENTS:
        raise _unreadable("too-large")
    return found


def _unreadable(code: str) -> InputError:
    return InputError(CODES[code], code=code, hint="check --format")


def _request(value: bytes, encoding: str) -> Any:
    return faithful_json(value) if encoding == JSON else proto_reader()(value)


class _Part:
    """What a record has of one trace."""

    def __init__(self, trace_id: str, trace: Trace, place: Place, received_us: int) -> None:
        self._trace, self._place, self._received_us = trace, (*place, trace_id), received_us
        self._trace_id, self._run_id = trace_id, trace_id or derived_id("otlp", *place)
        self._root: Item | None = None
        self._left_out = 0
        for item in (*trace.spans, *trace.logs):
            assert isinstance(item.resource, int)
            item.resource = self._resource_id(item.resource)

    def told(self) -> Iterator[RunEvent | None]:
        timed = [each for span in self._trace.spans for each in self._of_span(span)]
        for number, log in enumerate(self._trace.logs):
            timed += self._identified(moments_of_log(log), *self._place, "log", number)
        timed.sort(key=lambda each: each[1][:2])
        if timed:
            yield from self._begun(timed[0][1][0])
        for event_id, (at_us, _, kind, fields) in timed:
            yield self._event(event_id, at_us, kind, **fields)
        if timed and self._root is not None:
            status = "failed" if has_failed(self._root) else "completed"
            end_us = time_us(self._root.given.get("endTimeUnixNano"))
            yield self._of_root("run.finished", end_us, {"status": status} | self._root.ids)
        yield from [None] * self._left_out

    def _begun(self, first_us: int) -> Iterator[RunEvent]:
        if self._root is not None:
            start_us = time_us(self._root.given.get("startTimeUnixNano"))
            trigger = {"trigger": {"type": "import", "format": "otlp"}} | self._root.ids
            yield self._of_root("run.started", start_us, trigger)
            for name in LACKING:
                body = {"input": name, "state": "missing"}
                yield self._of_root("input.declared", start_us, body, name=name)
        for number, resource in enumerate(self._trace.resources):
            about = {"resource": resource, "number": number}
            yield self._event(self._resource_id(number), first_us, "environment.captured", about)

    def _of_span(self, span: Item) -> list[tuple[str, Moment]]:
        told = self._identified(moments_of_span(span), self._trace_id, span.given["spanId"])
        if told and self._root is None and not span.given.get("parentSpanId"):
            self._root = span
        return told

    def _identified(
        self, moments: Iterable[Moment], *identity: str | int
    ) -> list[tuple[str, Moment]]:
        """The moments of one span or log with their ids; none if it is none after all."""
        try:
            return [(derived_id(*identity, n), moment) for n, moment in enumerate(moments)]
        except MALFORMED:
            self._left_out += 1
            return []

    def _resource_id(self, number: int) -> str:
        return derived_id(*self._place, "resource", number)

    def _of_root(self, kind: str, at_us: int, body: Any, name: str | None = None) -> RunEvent:
        assert self._root is not None
        identity = self._trace_id, self._root.given["spanId"], kind, name or ""
        return self._event(derived_id(*identity), at_us, kind, body, name=name)

    def _event(
        self,
        event_id: str,
        at_us: int,
        kind: str,
        body: Any,
        *,
        kind_name: str | None = None,
        name: str | None = None,
        call_id: str | None = None,
    ) -> RunEvent:
        at_us = at_us or self._received_us
        return RunEvent(
            event_id=event_id,
            run_id=self._run_id,
            sequence=at_us,
            occurred_at=at_us,
            kind=kind,
            kind_name=kind_name,
            body=json_text(body),
            name=name,
            call_id=call_id,
            producer=_PRODUCER,
        )
