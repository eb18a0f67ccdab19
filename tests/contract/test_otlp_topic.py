"""A topic as the Kafka exporter of an OpenTelemetry Collector fills it, on a real broker."""

import json
import random
import string
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from opentelemetry.sdk.trace import ReadableSpan
from otel_samples import Telemetry, secret_bearing, span_request
from running import ingest, kill, redactory, start, succeed, until

from pipeline.lake.live import open_lake
from pipeline.lake.query import connect

TRACES, BATCH = 40, 7

STORED_SPANS = """
SELECT body ->> 'trace_id' AS trace, body ->> 'span_id' AS span,
  coalesce(body ->> 'parent_span_id', '') AS parent
FROM stored_events WHERE kind_name = 'otel.span' ORDER BY span
"""


def keys() -> Iterator[str]:
    """Keys of a provider's form, made here."""
    chance = random.Random(8)
    while True:
        yield "ghp" + "_" + "".join(chance.choices(string.ascii_letters + string.digits, k=36))


def export(bootstrap: str, topic: str, requests: Sequence[bytes], partitions: int = 1) -> None:
    """Sends requests as the exporter does by default: without a key, wherever there is room."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number, request in enumerate(requests):
        producer.produce(topic, value=request, partition=number % partitions)
    assert producer.flush(30) == 0


def tree(spans: Sequence[ReadableSpan]) -> list[dict[str, str]]:
    """The spans as `STORED_SPANS` gives them."""
    found = [
        {
            "trace": f"{span.get_span_context().trace_id:032x}",
            "span": f"{span.get_span_context().span_id:016x}",
            "parent": f"{span.parent.span_id:016x}" if span.parent else "",
        }
        for span in spans
    ]
    return sorted(found, key=lambda each: each["span"])


def query(lake: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    with connect(open_lake(lake)) as session:
        return session.sql(sql).to_arrow_table().to_pylist()


def verified(lake: Path, keys_file: Path, bootstrap: str) -> str:
    words = ("verify", "--lake", lake, "--keys", keys_file)
    return succeed(*words, "--against-topic", "--bootstrap", bootstrap)


def many_traces() -> Telemetry:
    """Traces of three spans, whose parts lie in several batches."""
    telemetry = Telemetry({"service.name": "shop"})
    for number in range(TRACES):
        with telemetry.tracer.start_as_current_span("answer", attributes={"n": number}):
            for step in ("find", "say"):
                with telemetry.tracer.start_as_current_span(step):
                    pass
    return telemetry


def batches(telemetry: Telemetry, encoding: str) -> list[bytes]:
    spans = telemetry.spans
    return [span_request(spans[at : at + BATCH], encoding) for at in range(0, len(spans), BATCH)]


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_no_secret_of_a_collectors_stream_survives_and_its_tree_does(
    encoding: str, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    lake, keys_file = tmp_path / "lake", tmp_path / "keys.json"
    telemetry, places = secret_bearing(keys(), time.time_ns())
    spans, logs = make_topic(), make_topic()
    cut = len(telemetry.spans) - 1
    parts = telemetry.spans[:cut], telemetry.spans[cut:]
    export(bootstrap, spans, [span_request(part, encoding) for part in parts])
    export(bootstrap, logs, [telemetry.log_request(encoding)])
    for topic in (spans, logs):
        report = ingest(bootstrap, topic, lake, keys_file, "--format", f"otlp-{encoding}")
        assert not report["counts"]["dead_letters"] and not report["counts"]["refused"]
    everything = repr([query(lake, f"FROM {table}") for table in ("stored_events", "run_versions")])
    assert [where for secret, where in places.items() if secret in everything] == []
    masked = query(lake, "SELECT count(*) AS n FROM redactions WHERE rule = 'github-token'")
    assert masked[0]["n"] >= len(places) - 1  # one stands in a field that is masked by its name
    ids = "SELECT DISTINCT body ->> 'span_id' AS span, coalesce(body ->> 'parent_span_id', '') "
    found = query(lake, f"{ids} AS parent FROM events WHERE span IS NOT NULL")
    known = {(each["span"], each["parent"]) for each in tree(telemetry.spans)}
    assert known <= {(each["span"], each["parent"]) for each in found}
    runs = query(lake, "SELECT run_id, status, holes, events FROM runs WHERE status = 'completed'")
    assert [(run["run_id"], run["holes"]) for run in runs] == [
        (tree(telemetry.spans)[0]["trace"], 0)
    ]
    lacks = query(lake, "SELECT reason FROM missing_inputs WHERE field = 'steps.sequence'")
    assert lacks == [{"reason": "declared missing"}]
    assert "every offset accounted for exactly once" in verified(lake, keys_file, bootstrap)


def test_killed_in_the_middle_each_span_is_there_once(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, lake, keys_file = make_topic(partitions=2), tmp_path / "lake", tmp_path / "keys.json"
    telemetry = many_traces()
    export(bootstrap, topic, [*batches(telemetry, "proto"), b"rubbish"], partitions=2)
    words = ("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake)
    more = ("--keys", keys_file, "--format", "otlp-proto", "--slice-records", "2", "--no-sweep")
    going = start(*words, *more)
    until(lambda: len(list(lake.glob("_log/*/*/*.commit"))) >= 3, "some slices are stored")
    kill(going)
    assert len(query(lake, STORED_SPANS)) < len(telemetry.spans)
    ingest(bootstrap, topic, lake, keys_file, *more[2:])
    assert query(lake, STORED_SPANS) == tree(telemetry.spans)
    assert query(lake, "SELECT code FROM dead_letters") == [{"code": "not-otlp"}]
    verified(lake, keys_file, bootstrap)


def test_a_topic_that_was_read_as_events_is_read_again_for_what_it_is(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, lake, keys_file = make_topic(), tmp_path / "lake", tmp_path / "keys.json"
    telemetry = many_traces()
    sent = batches(telemetry, "proto")
    export(bootstrap, topic, [*sent, b"rubbish"])
    report = ingest(bootstrap, topic, lake, keys_file)
    assert report["counts"]["dead_letters"] == len(sent) + 1
    words = ("deadletters", "retry", "--lake", lake, "--keys", keys_file, "--bootstrap", bootstrap)
    done = redactory(*words, "--format", "otlp-proto", "--json")
    assert done.returncode == 1, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["stay"] == {"unknown-encoding": 1}
    assert told["stored"] > len(telemetry.spans)
    assert query(lake, STORED_SPANS) == tree(telemetry.spans)
    verified(lake, keys_file, bootstrap)


def test_a_format_that_no_topic_has_is_refused(tmp_path: Path) -> None:
    words = ("--bootstrap", "127.0.0.1:1", "--topic", "spans", "--lake", tmp_path / "lake")
    done = redactory("ingest", *words, "--format", "vcr")
    assert done.returncode == 2
    assert "otlp-proto" in done.stderr
