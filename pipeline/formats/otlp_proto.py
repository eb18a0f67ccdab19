"""Export requests of OpenTelemetry in protobuf, as the JSON that OTLP has for them.

Needs the extra `otel`; apart from `otlp`, so that files in JSON need nothing.
"""

import base64
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_IDS = ("traceId", "spanId", "parentSpanId")


def as_json(message: bytes) -> dict[str, Any]:
    """A request with spans or logs; ValueError if it is none.

    Traces and logs are told apart by what stands in them: their requests are built alike.
    """
    traces = _parsed(ExportTraceServiceRequest(), message)
    spans = [s for r in traces.resource_spans for scope in r.scope_spans for s in scope.spans]
    if any(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in spans):
        return _plain(traces)
    logs = _parsed(ExportLogsServiceRequest(), message)
    records = [g for r in logs.resource_logs for scope in r.scope_logs for g in scope.log_records]
    if not records or not all(len(each.trace_id) in (0, 16) for each in records):
        raise ValueError("neither spans nor logs")
    return _plain(logs)


def _parsed(request: Any, message: bytes) -> Any:
    """The request, an empty one if the message is none of its kind."""
    try:
        request.ParseFromString(message)
    except DecodeError:
        request.Clear()
    return request


def _plain(request: Message) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(request, use_integers_for_enums=True)
    waiting: list[Any] = [found]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            # Ids are hexadecimal in OTLP's JSON, base64 in protobuf's own.
            for name in _IDS:
                if isinstance(value.get(name), str):
                    value[name] = base64.b64decode(value[name]).hex()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found
