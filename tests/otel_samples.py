"""Traces and logs made by the real OpenTelemetry SDK, as its exporters send them."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, Status, StatusCode


class Telemetry:
    """A tracer and a logger whose exports stay in memory."""

    def __init__(self, resource: Mapping[str, Any]) -> None:
        self._spans, self._logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        made = Resource(dict(resource))
        tracers, loggers = TracerProvider(resource=made), LoggerProvider(resource=made)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.tracer, self._logger = tracers.get_tracer("agent", "1.2"), loggers.get_logger("agent")

    def log(self, name: str, body: Any, attributes: Mapping[str, Any], at_ns: int) -> None:
        """A log record within the current span."""
        self._logger.emit(
            LogRecord(
                timestamp=at_ns,
                context=trace.set_span_in_context(trace.get_current_span()),
                severity_number=SeverityNumber.INFO,
                body=body,
                attributes=dict(attributes),
                event_name=name,
            )
        )

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """All that have ended, in the order in which they did."""
        return self._spans.get_finished_spans()

    def requests(self) -> Iterator[bytes]:
        """What the exporters send: spans in two requests, as a batch may be cut, then logs."""
        spans = self.spans
        for batch in (spans[:1], spans[1:]):
            if batch:
                yield span_request(batch, "proto")
        if logs := self._logs.get_finished_logs():
            yield encode_logs(logs).SerializeToString()

    def log_request(self, encoding: str) -> bytes:
        """All logs in one request, `proto` or `json`."""
        message = encode_logs(self._logs.get_finished_logs())
        return message.SerializeToString() if encoding == "proto" else _json(message, self.spans)

    def as_proto(self) -> bytes:
        """A file of a Collector, `format: proto`."""
        return b"".join(len(each).to_bytes(4, "big") + each for each in self.requests())

    def as_json(self) -> bytes:
        """A file of a Collector, `format: json`."""
        found = [span_request(self.spans, "json")] if self.spans else []
        found += [self.log_request("json")] if self._logs.get_finished_logs() else []
        return b"\n".join(found)


def span_request(spans: Sequence[ReadableSpan], encoding: str) -> bytes:
    """What an exporter sends of these spans, `proto` or `json`."""
    message = encode_spans(spans)
    return message.SerializeToString() if encoding == "proto" else _json(message, spans)


def _json(message: Message, spans: Sequence[ReadableSpan]) -> bytes:
    """A request in OTLP's JSON, in which ids are hexadecimal."""
    text = json.dumps(MessageToDict(message, use_integers_for_enums=True))
    for span in spans:
        contexts = (span.get_span_context(), span.parent, *(each.context for each in span.links))
        for context in filter(None, contexts):
            text = _hexadecimal(text, context.trace_id.to_bytes(16, "big"))
            text = _hexadecimal(text, context.span_id.to_bytes(8, "big"))
    return text.encode()


def _hexadecimal(text: str, number: bytes) -> str:
    return text.replace(f'"{base64.b64encode(number).decode()}"', f'"{number.hex()}"')


def secret_bearing(
    secrets: Iterator[str], start_ns: int = 1_790_000_000_000_000_000
) -> tuple[Telemetry, dict[str, str]]:
    """An agent's trace with the next secret in each place that can hold text; places by secret.

    `start_ns` is the time of its logs.
    """
    places: dict[str, str] = {}

    def hidden(place: str) -> str:
        secret = next(secrets)
        places[secret] = place
        return f"see {secret} there"

    telemetry = Telemetry({"service.name": "shop", "host.note": hidden("resource")})
    tracer = telemetry.tracer
    with tracer.start_as_current_span(
        "invoke_agent shop",
        attributes={"gen_ai.operation.name": "invoke_agent", "note": hidden("attribute")},
    ):
        messages = json.dumps([{"role": "user", "parts": [{"content": hidden("input")}]}])
        with tracer.start_as_current_span(
            "chat m",
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "acme",
                "gen_ai.request.model": "m",
                "gen_ai.request.temperature": 0.5,
                "gen_ai.conversation.id": "conversation-1",
                "gen_ai.input.messages": messages,
                "gen_ai.output.messages": json.dumps([{"content": hidden("output")}]),
                "gen_ai.system_instructions": json.dumps([{"content": hidden("system")}]),
                "gen_ai.response.model": "m-2026",
                "gen_ai.response.id": "response-1",
                "gen_ai.response.finish_reasons": ["stop"],
                "gen_ai.usage.input_tokens": 7,
                "gen_ai.usage.output_tokens": 2,
                "http.request.header.authorization": [hidden("header")],
                "blob": hidden("bytes").encode(),
            },
        ) as chat:
            chat.add_event("gen_ai.user.message", {"content": hidden("message event")})
            chat.add_event("cache.missed", {"reason": hidden("span event")})
            telemetry.log("retrieved", {"documents": [hidden("log body")]}, {}, start_ns)
            telemetry.log("gen_ai.tool.message", {"content": hidden("log message")}, {}, start_ns)
        linked = Link(chat.get_span_context(), {"why": hidden("link")})
        with tracer.start_as_current_span(
            "execute_tool look",
            links=[linked],
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "look",
                "gen_ai.tool.call.id": "call-1",
                "gen_ai.tool.call.arguments": json.dumps({"for": hidden("arguments")}),
                "gen_ai.tool.call.result": json.dumps({"found": hidden("result")}),
            },
        ) as look:
            look.record_exception(ValueError(hidden("exception")))
            look.set_status(Status(StatusCode.ERROR, hidden("status")))
    return telemetry, places
