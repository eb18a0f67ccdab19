"""Metrics and spans as an OpenTelemetry collector gets them."""

import threading
from collections.abc import Callable, Iterator
from gzip import decompress as gunzip
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ingest_double import Ingest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipeline.errors import UsageError
from pipeline.metrics.otel import check_endpoint, sending


@pytest.fixture
def ingest() -> Ingest:
    return Ingest()


class Collected:
    """What came to a collector on the loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.bodies: dict[str, list[bytes]] = {"/v1/metrics": [], "/v1/traces": []}

    def spans(self) -> list[Any]:
        found = map(ExportTraceServiceRequest.FromString, self.bodies["/v1/traces"])
        return [
            span
            for each in found
            for resource in each.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        last = ExportMetricsServiceRequest.FromString(self.bodies["/v1/metrics"][-1])
        ((scope,),) = [resource.scope_metrics for resource in last.resource_metrics]
        return {
            metric.name: [
                (
                    {each.key: each.value.string_value for each in point.attributes},
                    point.as_double or point.as_int,
                )
                for point in (metric.sum.data_points or metric.gauge.data_points)
            ]
            for metric in scope.metrics
        }


@pytest.fixture
def collector() -> Iterator[Collected]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            unpacked = body if self.headers.get("content-encoding") != "gzip" else gunzip(body)
            collected.bodies[self.path].append(unpacked)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collected = Collected(server.server_port)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield collected
        server.shutdown()


def test_metrics_and_a_span_for_each_slice_are_sent_by_otlp(
    ingest: Ingest, collector: Collected
) -> None:
    ingest.lag.ends = {0: 30, 1: 0}
    with sending(collector.url, ingest.vitals):
        ingest.commit(0, 10, redactions={"email": 3, "what-a-producer-says": 1})
    (span,) = collector.spans()
    assert (span.name, span.end_time_unix_nano - span.start_time_unix_nano) == ("slice", 3 * 10**9)
    about = {each.key: each.value for each in span.attributes}
    assert about["redactory.offset.end"].int_value == 10
    assert about["messaging.destination.name"].string_value == "runs"
    assert collector.metrics()["redactory_events"] == [({}, 7)]
    assert collector.metrics()["redactory_redactions"] == [
        ({"rule": "email", "action": "hash"}, 3),
        ({"rule": "other", "action": "other"}, 1),
    ]
    assert collector.metrics()["redactory_lag_messages"][0] == ({"partition": "0"}, 20)


def test_a_collector_that_is_away_holds_nothing_up(
    ingest: Ingest, free_port: Callable[[], int], capfd: pytest.CaptureFixture[str]
) -> None:
    with sending(f"http://127.0.0.1:{free_port()}", ingest.vitals):
        ingest.commit(0, 10)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("wrong", ["collector:4318", "grpc://collector:4317", "http://", ""])
def test_what_is_no_collectors_url_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        check_endpoint(wrong)
