"""`otlp-json`, `otlp-proto`: traces and logs as an OpenTelemetry Collector writes them to files.

A file has an export request a line (JSON), or one after the other, each behind its length in four
bytes (protobuf, big-endian).  A trace is one run, wherever in the file its spans and logs stand.

| in the file | event |
| --- | --- |
| a trace | `run.started`; `run.finished` if its root is there |
| a resource | `environment.captured`, for each trace it has a part in |
| a span that is a call of a model | `model.requested` at its start, `model.responded` at its end |
| a span that is a call of a tool | `tool.requested`, `tool.responded` |
| any other span | `other`, `kind_name` is `otel.span`, `name` is the span's |
| an exception of a span | `error` |
| a message as an event of a span, or as a log | `message` |
| the details of a call as a log | the call's, whose span the file may have or not |
| any other log | `other`, `kind_name` is `otel.log` |

Which attributes say what is `genai`'s to know.  All others, events, links, status and scope stand
in the last event of a span (`span`, `log`, `event`), names with dots as objects; nothing is left
out, and `resource` is the number of the resource.  Each body names
`trace_id`, `span_id` and `parent_span_id`, so that the tree is kept; `call_id` is the id that the
call gives, else the span's.  Events stand in the order of time.  Logs of no trace are one run.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pipeline.formats.base import LINE_MAX_BYTES, Format, Source, derived_id, parse_json
from pipeline.formats.genai import DETAILS
from pipeline.formats.otlp_items import (
    LACKING,
    MALFORMED,
    Moment,
    Trace,
    deal,
    event_name,
    has_failed,
    moments_of_log,
    moments_of_span,
    proto_reader,
    time_us,
)
from pipeline.formats.run import Run
from schemas import RunEvent

_JSON: Final = re.compile(rb'\s*+\{\s*+"resource(?:Spans|Logs)"\s*+:')
_LENGTH_BYTES: Final = 4
_FIRST_TAG: Final = b"\x0a"
"""How a message begins whose first field has number 1 and a length."""


def sniff_json(head: bytes) -> bool:
    """Whether an export request with spans or logs begins."""
    return bool(_JSON.match(head))


def sniff_proto(head: bytes) -> bool:
    """Whether a length and the first byte of a request stand at the start."""
    size = int.from_bytes(head[:_LENGTH_BYTES], "big")
    starts = head[_LENGTH_BYTES:].startswith(_FIRST_TAG)
    return starts and 2 < size <= LINE_MAX_BYTES and head[:1] == b"\0"


def read_json(source: Source) -> Iterator[RunEvent]:
    """One run for each trace, in the order of their first spans or logs."""
    content = source.whole()
    first = content.lstrip().partition(b"\n")[0].rstrip()
    if not first.endswith(b"}"):
        yield from _told(source, [parse_json(source, content)], content)
        return
    lines = enumerate(content.splitlines(), start=1)
    requests = [parse_json(source, text, line=number) for number, text in lines if text.strip()]
    yield from _told(source, requests, content)


def read_proto(source: Source) -> Iterator[RunEvent]:
    """The same from protobuf."""
    content = source.whole()
    yield from _told(source, list(_messages(source, content)), content)


def _messages(source: Source, content: bytes) -> Iterator[Any]:
    as_json = proto_reader()
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at : at + _LENGTH_BYTES], "big")
        at += _LENGTH_BYTES
        if at + size > len(content):
            source.fail("the file ends within a message")
        try:
            yield as_json(content[at : at + size])
        except ValueError:
            source.fail("this is not a request with spans or logs")
        at += size


def _told(source: Source, requests: Iterable[Any], content: bytes) -> Iterator[RunEvent]:
    traces: dict[str, Trace] = {}
    alone = derived_id("otlp", hashlib.sha256(content).hexdigest())
    try:
        for request in requests:
            deal(request, traces)
        for trace_id, trace in traces.items():
            run = Run(trace_id or alone, "opentelemetry", source.captured_at_us)
            yield from list(_Telling(trace, run).told())
    except MALFORMED:
        source.fail("this is not a request with spans or logs")


class _Telling:
    """Tells one trace as events of `run`."""

    def __init__(self, trace: Trace, run: Run) -> None:
        self._trace, self._run = trace, run
        ids = {span.given["spanId"] for span in trace.spans}
        self._root = next((s for s in trace.spans if not s.given.get("parentSpanId")), None)
        self._details = {
            log.given["spanId"]: log
            for log in trace.logs
            if event_name(log) == DETAILS and log.given.get("spanId") in ids
        }

    def told(self) -> Iterator[RunEvent]:
        logs = [log for log in self._trace.logs if log not in self._details.values()]
        moments: list[Moment] = [
            moment
            for span in self._trace.spans
            for moment in moments_of_span(span, self._details.get(span.given["spanId"]))
        ]
        moments += [moment for log in logs for moment in moments_of_log(log)]
        moments.sort(key=lambda moment: moment[:2])
        self._run.at_us = moments[0][0] or self._run.at_us
        yield from self._begun()
        for at_us, _, kind, fields in moments:
            self._run.at_us = at_us or self._run.at_us
            yield self._run.event(kind, **fields)
        if self._root is not None:
            self._run.at_us = time_us(self._root.given.get("endTimeUnixNano")) or self._run.at_us
            status = "failed" if has_failed(self._root) else "completed"
            yield self._run.event("run.finished", {"status": status} | self._root.ids)

    def _begun(self) -> Iterator[RunEvent]:
        trigger = {"trigger": {"type": "import", "format": "otlp"}}
        yield self._run.event("run.started", trigger | (self._root.ids if self._root else {}))
        for number, resource in enumerate(self._trace.resources):
            body = {"resource": resource, "number": number}
            yield self._run.event("environment.captured", body)
        yield from self._run.declare("missing", *LACKING)


JSON: Final = Format("otlp-json", sniff_json, read_json)
PROTO: Final = Format("otlp-proto", sniff_proto, read_proto)
