"""Spans and log records of OTLP, dealt out to their traces, and what is told of each.

`otlp` reads them from files, `otlp_records` from the records of a topic.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.errors import UsageError
from pipeline.formats.genai import DETAILS, Attributes, Call, call_of, message_of, nested
from schemas import OTHER

_FAILED: Final = (2, "STATUS_CODE_ERROR")
_IDS: Final = ("traceId", "spanId", "parentSpanId")

LACKING: Final = ("code", "policy", "task", "integrations", "outputs", "authority")
"""Parts of a run record of which telemetry has nothing."""

MALFORMED: Final = (TypeError, ValueError, AttributeError, KeyError, RecursionError)
"""What it raises to take for OTLP what is none."""

Object = Mapping[str, Any]

Moment = tuple[int, int, str, dict[str, Any]]
"""Time in epoch microseconds (0: none), place among those of one time, kind, fields."""


@dataclass(slots=True)
class Trace:
    """What a file or record has of one trace, in its order; of resources each once."""

    spans: list["Item"] = field(default_factory=list)
    logs: list["Item"] = field(default_factory=list)
    resources: list[Object] = field(default_factory=list)


@dataclass(slots=True)
class Item:
    """A span or log record; `resource` says which of the trace's resources it is of."""

    given: dict[str, Any]
    attributes: Attributes
    scope: Any
    resource: int | str

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


def proto_reader() -> Callable[[bytes], dict[str, Any]]:
    """Makes of a request in protobuf the one in JSON; raises UsageError if it is not installed."""
    try:
        from pipeline.formats.otlp_proto import as_json
    except ModuleNotFoundError:
        raise UsageError(
            "OTLP in protobuf needs opentelemetry-proto, which is not installed",
            code="missing-extra",
            hint="pip install 'redactory[otel]'",
        ) from None
    return as_json


def deal(request: Object, traces: dict[str, Trace], *, is_strict: bool = True) -> int:
    """Deals a request's spans and logs out to their traces.

    Raises one of `MALFORMED` where it is none.  A single span or log that is none raises it, too;
    if not `is_strict` it is left out, and the number of these comes back.
    """
    if not request.keys() <= {"resourceSpans", "resourceLogs"}:
        raise ValueError
    left_out = 0
    for by_resource in (*request.get("resourceSpans", ()), *request.get("resourceLogs", ())):
        resource = dict(by_resource.get("resource") or {})
        resource["attributes"] = nested(_plain_attributes(resource.get("attributes")))
        resource |= {"schema_url": by_resource["schemaUrl"]} if by_resource.get("schemaUrl") else {}
        for by_scope in (*by_resource.get("scopeSpans", ()), *by_resource.get("scopeLogs", ())):
            scope = _readable(by_scope.get("scope")) or {}
            scope |= {"schema_url": by_scope["schemaUrl"]} if by_scope.get("schemaUrl") else {}
            for kind in ("spans", "logRecords"):
                for given in by_scope.get(kind, ()):
                    try:
                        _enter(traces, kind, given, scope, resource)
                    except MALFORMED:
                        if is_strict:
                            raise
                        left_out += 1
    return left_out


def _enter(traces: dict[str, Trace], kind: str, given: Object, scope: Any, resource: Any) -> None:
    given = dict(given)
    attributes = _plain_attributes(given.pop("attributes", None))
    trace = traces.setdefault(_trace_id(given, kind), Trace())
    if resource not in trace.resources:
        trace.resources.append(resource)
    item = Item(given, attributes, scope, trace.resources.index(resource))
    (trace.spans if kind == "spans" else trace.logs).append(item)


def _trace_id(given: Object, kind: str) -> str:
    trace_id, span_id = given.get("traceId") or "", given.get("spanId") or ""
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        raise TypeError
    if kind == "spans" and not (trace_id and span_id):
        raise ValueError
    (trace_id + span_id).encode()  # half a surrogate pair makes no id
    return trace_id


def moments_of_span(span: Item, details: Item | None = None) -> Iterator[Moment]:
    """What is told of a span; `details` is the log that has the content of its call."""
    given, ids = span.given, span.ids
    start_us, end_us = (time_us(given.get(f"{at}TimeUnixNano")) for at in ("start", "end"))
    if details is not None:
        span.attributes = {**details.attributes, **span.attributes}
        given["details"] = details.given
    call = call_of(span.attributes)
    call_id = (call.call_id if call else None) or given["spanId"]
    events = given.get("events") or []
    given["events"] = [each for each in events if not _is_told(each)]
    for each in events:
        if _is_told(each):
            yield _span_event_moment(each, ids, call_id)
    if call is None:
        named = {"kind_name": "otel.span", "name": _text(given.get("name"))}
        yield start_us, 1, OTHER, {"body": ids | {"span": span.rest()}, **named}
        return
    yield from _call_moments(call, call_id, span, start_us, end_us, "span")


def moments_of_log(log: Item) -> Iterator[Moment]:
    """What is told of a log record."""
    given, name = log.given, event_name(log)
    at_us = time_us(given.get("timeUnixNano")) or time_us(given.get("observedTimeUnixNano"))
    body = _plain(given.get("body"))
    call = call_of(log.attributes) if name == DETAILS else None
    if call is not None:
        call_id = call.call_id or given.get("spanId") or None
        yield from _call_moments(call, call_id, log, at_us, at_us, "log")
    elif (message := message_of(name, body, log.attributes)) is not None:
        yield at_us, 1, "message", {"body": message | log.ids | {"log": log.rest("body")}}
    else:
        told = {"body": body} | log.ids | {"log": log.rest("body")}
        yield at_us, 1, OTHER, {"body": told, "kind_name": "otel.log", "name": name or None}


def _call_moments(
    call: Call, call_id: str | None, item: Item, start_us: int, end_us: int, source: str
) -> Iterator[Moment]:
    pair = {"name": call.name, "call_id": call_id}
    asked, answered = call.request | item.ids, call.response | item.ids | {source: item.rest()}
    if call.kind == "tool":
        answered = {"status": "error" if has_failed(item) else "ok"} | answered
    yield start_us, 1, f"{call.kind}.requested", {"body": asked, **pair}
    # What ends here ends before the next begins.
    order = 0 if end_us > start_us else 2
    yield end_us, order, f"{call.kind}.responded", {"body": answered, **pair}


def _is_told(event: Object) -> bool:
    """Whether an event of a span becomes an event of its own."""
    return (
        event.get("name") == "exception" or message_of(str(event.get("name")), "", {}) is not None
    )


def _span_event_moment(event: Object, ids: dict[str, Any], call_id: str) -> Moment:
    attributes = _plain_attributes(event.get("attributes"))
    at_us = time_us(event.get("timeUnixNano"))
    message = message_of(str(event["name"]), None, attributes)
    told = message or {
        "type": attributes.pop("exception.type", None),
        "message": attributes.pop("exception.message", None),
        "stack": attributes.pop("exception.stacktrace", None),
        "during": call_id,
    }
    rest = {**event, "attributes": nested(attributes)}
    kind, order = ("message", 1) if message else ("error", 0)
    return at_us, order, kind, {"body": told | ids | {"event": rest}}


def has_failed(item: Item) -> bool:
    """Whether the status of a span is an error."""
    status = item.given.get("status")
    return isinstance(status, dict) and status.get("code") in _FAILED


def event_name(log: Item) -> str:
    """The name of the event that a log record is; empty if it is none."""
    return str(log.given.get("eventName") or log.attributes.get("event.name") or "")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def time_us(time: Any) -> int:
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
