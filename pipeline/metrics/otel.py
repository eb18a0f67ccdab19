"""The same metrics, and a span for each slice, sent by OpenTelemetry's protocol (OTLP over HTTP).

The SDK is the extra `otel`.  It is set up here and for these only: an SDK that instruments a Kafka
client would see what nobody but the reader may.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pipeline.errors import UsageError
from pipeline.metrics.exposition import Exposition
from pipeline.metrics.vitals import Slice, Vitals

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

EVERY_S: Final = 15.0
TIMEOUT_S: Final = 3.0
"""How long one sending may take, and how long the end of an ingest may wait for the last."""


def check_endpoint(url: str) -> str:
    """The URL without a closing slash; `UsageError` if it is none for HTTP."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https") and parts.hostname:
        return url.rstrip("/")
    raise UsageError(
        "--otlp takes the URL of a collector",
        code="bad-endpoint",
        hint="http://127.0.0.1:4318 is where one listens by default",
    )


@contextmanager
def sending(endpoint: str, vitals: Vitals) -> Iterator[None]:
    """Sends meanwhile; a collector that is away costs what was to be sent, and nothing else."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # Without a handler its warnings would go to stderr, which is the ingest's own.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    about = Resource({"service.name": "redactory", "service.version": version("redactory")})
    metrics = OTLPMetricExporter(f"{endpoint}/v1/metrics", timeout=TIMEOUT_S)
    reader = PeriodicExportingMetricReader(metrics, EVERY_S * 1000, TIMEOUT_S * 1000)
    meters = MeterProvider([reader], resource=about, shutdown_on_exit=False)
    _observe(meters.get_meter("redactory"), Exposition(vitals))
    tracers = TracerProvider(resource=about, shutdown_on_exit=False)
    spans = OTLPSpanExporter(f"{endpoint}/v1/traces", timeout=TIMEOUT_S)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    vitals.on_slice = _spans(tracers.get_tracer("redactory"))
    try:
        yield
    finally:
        vitals.on_slice = None
        last = [threading.Thread(target=each.shutdown, daemon=True) for each in (meters, tracers)]
        for thread in last:
            thread.start()
        for thread in last:
            thread.join(TIMEOUT_S)


def _observe(meter: Any, exposition: Exposition) -> None:
    """An instrument for each family, of the same name, looked at whenever something is sent."""
    for family in exposition.collect():
        is_counter = family.type == "counter"
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        make(family.name, [_looks(exposition, family.name)], description=family.documentation)


def _looks(
    exposition: Exposition, name: str
) -> "Callable[[CallbackOptions], Iterator[Observation]]":
    def look(options: "CallbackOptions") -> "Iterator[Observation]":
        from opentelemetry.metrics import Observation

        for family in exposition.collect():
            if family.name == name:
                for sample in family.samples:
                    yield Observation(sample.value, sample.labels)

    return look


def _spans(tracer: Any) -> Callable[[Slice], None]:
    """A span from a slice's opening to its commit: where it stood, never what it held."""

    def record(slice_: Slice) -> None:
        span = tracer.start_span(
            "slice",
            start_time=int(slice_.opened_s * 1e9),
            attributes={
                "messaging.system": "kafka",
                "messaging.destination.name": slice_.topic,
                "messaging.destination.partition.id": str(slice_.partition),
                "redactory.offset.start": slice_.start,
                "redactory.offset.end": slice_.end,
                "redactory.ruleset": slice_.ruleset,
            },
        )
        span.end(int(slice_.committed_s * 1e9))

    return record
