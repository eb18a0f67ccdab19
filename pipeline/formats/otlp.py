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

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.errors import UsageError
from pipeline.formats.base import LINE_MAX_BYTES, Format, Source, derived_id, parse_json
from pipeline.formats.genai import DETAILS, Attributes, Call, call_of, message_of, nested
from pipeline.formats.run import Run
from schemas import OTHER, RunEvent

_JSON: Final = re.compile(rb'\s*+\{\s*+"resource(?:Spans|Logs)"\s*+:')
_LENGTH_BYTES: Final = 4
_FIRST_TAG: Final = b"\x0a"
"""How a message begins whose first field has number 1 and a length."""

_FAILED: Final = (2, "STATUS_CODE_ERROR")
_LACKING: Final = ("code", "policy", "task", "integrations", "outputs", "authority")
_IDS: Final = ("traceId", "spanId", "parentSpanId")

Object = Mapping[str, Any]


@dataclass(slots=True)
class _Trace:
    """What the file has of one trace, in its order; of resources each once."""

    spans: list["_Item"] = field(default_factory=list)
    logs: list["_Item"] = field(default_factory=list)
    resources: list[Object] = field(default_factory=list)


@dataclass(slots=True)
class _Item:
    """A span or log record; `resource` is its number among those of the trace."""

    given: dict[str, Any]
    attributes: Attributes
    scope: Any
    resource: int

    @property
    def ids(self) -> dict[str, Any]:
        names = ("trace_id", "span_id", "parent_span_id")
        return {
            ours: self.given[t] for ours, t in zip(names, _IDS, strict=True) if self.given.get(t)
        }

    def rest(self, *told: str) -> dict[str, Any]:
        """All that is not told elsewhere, attributes of events and links as those of the item."""
        left = {key: _readable(self.given[key]) for key in self.given if key not in (*_IDS, *told)}
        rest = {"attributes": nested(self.attributes), "scope": self.scope} | left
        return {key: value for key, value in rest.items() if value} | {"resource": self.resource}


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
    try:
        from pipeline.formats.otlp_proto import as_json
    except ModuleNotFoundError:
        raise UsageError(
            "OTLP in protobuf needs opentelemetry-proto, which is not installed",
            code="missing-extra",
            hint="pip install 'redactory[otel]'",
        ) from None
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
    traces: dict[str, _Trace] = {}
    alone = derived_id("otlp", hashlib.sha256(content).hexdigest())
    try:
        for request in requests:
            _sort(request, traces)
        for trace_id, trace in traces.items():
            run = Run(trace_id or alone, "opentelemetry", source.captured_at_us)
            yield from list(_Telling(trace, run).told())
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
        source.fail("this is not a request with spans or logs")


def _sort(request: Object, traces: dict[str, _Trace]) -> None:
    """Deals a request's spans and logs out to their traces."""
    if not request.keys() <= {"resourceSpans", "resourceLogs"}:
        raise ValueError
    for by_resource in (*request.get("resourceSpans", ()), *request.get("resourceLogs", ())):
        resource = dict(by_resource.get("resource") or {})
        resource["attributes"] = nested(_plain_attributes(resource.get("attributes")))
        resource |= {"schema_url": by_resource["schemaUrl"]} if by_resource.get("schemaUrl") else {}
        for by_scope in (*by_resource.get("scopeSpans", ()), *by_resource.get("scopeLogs", ())):
            scope = _readable(by_scope.get("scope")) or {}
            scope |= {"schema_url": by_scope["schemaUrl"]} if by_scope.get("schemaUrl") else {}
            for kind in ("spans", "logRecords"):
                for given in by_scope.get(kind, ()):
                    given = dict(given)
                    attributes = _plain_attributes(given.pop("attributes", None))
                    trace = traces.setdefault(_trace_id(given, kind), _Trace())
                    if resource not in trace.resources:
                        trace.resources.append(resource)
                    item = _Item(given, attributes, scope, trace.resources.index(resource))
                    (trace.spans if kind == "spans" else trace.logs).append(item)


def _trace_id(given: Object, kind: str) -> str:
    trace_id, span_id = given.get("traceId") or "", given.get("spanId") or ""
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        raise TypeError
    if kind == "spans" and not (trace_id and span_id):
        raise ValueError
    return trace_id


class _Telling:
    """Tells one trace as events of `run`."""

    def __init__(self, trace: _Trace, run: Run) -> None:
        self._trace, self._run = trace, run
        ids = {span.given["spanId"] for span in trace.spans}
        self._root = next((s for s in trace.spans if not s.given.get("parentSpanId")), None)
        self._details = {
            log.given["spanId"]: log
            for log in trace.logs
            if _name(log) == DETAILS and log.given.get("spanId") in ids
        }

    def told(self) -> Iterator[RunEvent]:
        logs = [log for log in self._trace.logs if log not in self._details.values()]
        moments = [moment for span in self._trace.spans for moment in self._of_span(span)]
        moments += [moment for log in logs for moment in self._of_log(log)]
        moments.sort(key=lambda moment: moment[:2])
        self._run.at_us = moments[0][0] or self._run.at_us
        yield from self._begun()
        for time_us, _, kind, fields in moments:
            self._run.at_us = time_us or self._run.at_us
            yield self._run.event(kind, **fields)
        if self._root is not None:
            self._run.at_us = _time_us(self._root.given.get("endTimeUnixNano")) or self._run.at_us
            status = "failed" if _has_failed(self._root) else "completed"
            yield self._run.event("run.finished", {"status": status} | self._root.ids)

    def _begun(self) -> Iterator[RunEvent]:
        trigger = {"trigger": {"type": "import", "format": "otlp"}}
        yield self._run.event("run.started", trigger | (self._root.ids if self._root else {}))
        for number, resource in enumerate(self._trace.resources):
            body = {"resource": resource, "number": number}
            yield self._run.event("environment.captured", body)
        yield from self._run.declare("missing", *_LACKING)

    def _of_span(self, span: _Item) -> Iterator["_Moment"]:
        given, ids = span.given, span.ids
        start_us, end_us = (_time_us(given.get(f"{at}TimeUnixNano")) for at in ("start", "end"))
        details = self._details.get(given["spanId"])
        if details is not None:
            span.attributes = {**details.attributes, **span.attributes}
            given["details"] = details.given
        call = call_of(span.attributes)
        call_id = (call.call_id if call else None) or given["spanId"]
        events = given.get("events") or []
        given["events"] = [each for each in events if not _is_told(each)]
        for each in events:
            if _is_told(each):
                yield _of_span_event(each, ids, call_id)
        if call is None:
            named = {"kind_name": "otel.span", "name": _text(given.get("name"))}
            yield start_us, 1, OTHER, {"body": ids | {"span": span.rest()}, **named}
            return
        yield from _of_call(call, call_id, span, start_us, end_us, "span")

    def _of_log(self, log: _Item) -> Iterator["_Moment"]:
        given, name = log.given, _name(log)
        time_us = _time_us(given.get("timeUnixNano")) or _time_us(given.get("observedTimeUnixNano"))
        body = _plain(given.get("body"))
        call = call_of(log.attributes) if name == DETAILS else None
        if call is not None:
            call_id = call.call_id or given.get("spanId") or None
            yield from _of_call(call, call_id, log, time_us, time_us, "log")
        elif (message := message_of(name, body, log.attributes)) is not None:
            yield time_us, 1, "message", {"body": message | log.ids | {"log": log.rest("body")}}
        else:
            told = {"body": body} | log.ids | {"log": log.rest("body")}
            yield time_us, 1, OTHER, {"body": told, "kind_name": "otel.log", "name": name or None}


_Moment = tuple[int, int, str, dict[str, Any]]
"""Time in epoch microseconds (0: none), place among those of one time, kind, fields."""


def _of_call(
    call: Call, call_id: str | None, item: _Item, start_us: int, end_us: int, source: str
) -> Iterator[_Moment]:
    pair = {"name": call.name, "call_id": call_id}
    asked, answered = call.request | item.ids, call.response | item.ids | {source: item.rest()}
    if call.kind == "tool":
        answered = {"status": "error" if _has_failed(item) else "ok"} | answered
    yield start_us, 1, f"{call.kind}.requested", {"body": asked, **pair}
    # What ends here ends before the next begins.
    order = 0 if end_us > start_us else 2
    yield end_us, order, f"{call.kind}.responded", {"body": answered, **pair}


def _is_told(event: Object) -> bool:
    """Whether an event of a span becomes an event of its own."""
    return (
        event.get("name") == "exception" or message_of(str(event.get("name")), "", {}) is not None
    )


def _of_span_event(event: Object, ids: dict[str, Any], call_id: str) -> _Moment:
    attributes = _plain_attributes(event.get("attributes"))
    time_us = _time_us(event.get("timeUnixNano"))
    message = message_of(str(event["name"]), None, attributes)
    told = message or {
        "type": attributes.pop("exception.type", None),
        "message": attributes.pop("exception.message", None),
        "stack": attributes.pop("exception.stacktrace", None),
        "during": call_id,
    }
    rest = {**event, "attributes": nested(attributes)}
    kind, order = ("message", 1) if message else ("error", 0)
    return time_us, order, kind, {"body": told | ids | {"event": rest}}


def _has_failed(item: _Item) -> bool:
    status = item.given.get("status")
    return isinstance(status, dict) and status.get("code") in _FAILED


def _name(log: _Item) -> str:
    return str(log.given.get("eventName") or log.attributes.get("event.name") or "")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _time_us(time: Any) -> int:
    """Epoch microseconds of nanoseconds, which JSON has as text; 0 if there are none."""
    return int(time or 0) // 1_000


def _readable(value: Any) -> Any:
    """The same with each list of attributes as an object."""
    if isinstance(value, dict):
        return {
            key: nested(_plain_attributes(inner)) if key == "attributes" else _readable(inner)
            for key, inner in value.items()
        }
    return [_readable(each) for each in value] if isinstance(value, list) else value


def _plain_attributes(pairs: Any) -> Attributes:
    """Attributes by name; one that comes again is kept under `<name>#2`."""
    found: Attributes = {}
    for pair in pairs or ():
        name, number = str(pair["key"]), 1
        while name in found:
            number += 1
            name = f"{pair['key']}#{number}"
        found[name] = _plain(pair.get("value"))
    return found


def _plain(value: Any) -> Any:
    """The JSON value that an AnyValue stands for."""
    match value:
        case {"intValue": number}:
            return int(number)
        case {"arrayValue": inner}:
            return [_plain(each) for each in inner.get("values", ())]
        case {"kvlistValue": inner}:
            return _plain_attributes(inner.get("values"))
        case {"bytesValue": text}:
            return _bytes(text)
        case {"stringValue": plain} | {"boolValue": plain} | {"doubleValue": plain}:
            return plain
        case None | {}:
            return None
    raise ValueError


def _bytes(text: str) -> Any:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return {"base64": text}


JSON: Final = Format("otlp-json", sniff_json, read_json)
PROTO: Final = Format("otlp-proto", sniff_proto, read_proto)
