"""A running ingest asked for its metrics: what its workers committed, nothing of what it read."""

import http.client
import json
import signal
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from running import kill, start, until
from scale import produce


def ask(port: int, path: str) -> tuple[int, str]:
    """Status and text; (0, "") while nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except ConnectionError:
        return 0, ""
    finally:
        connection.close()


def values(text: str, name: str) -> list[float]:
    families = text_string_to_metric_families(text)
    return [each.value for family in families for each in family.samples if each.name == name]


def test_a_running_ingest_tells_what_all_its_workers_did(
    bootstrap: str,
    make_topic: Callable[..., str],
    free_port: Callable[[], int],
    tmp_path: Path,
) -> None:
    bounds = {"retention_ms": "3600000", "segment_ms": "3600000"}  # or it is warned of
    topic, port = make_topic(partitions=2, **bounds), free_port()
    secret = "Tr0ub4dor" + "-and-three"
    produce(bootstrap, topic, 2, range(150), secret)
    process = start(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", tmp_path / "lake"),
        *("--keys", tmp_path / "keys.json", "--workers", "2", "--flush-interval-s", "0.5"),
        *("--metrics", f"127.0.0.1:{port}", "--log-format", "json", "--json"),
    )
    try:
        until(lambda: ask(port, "/readyz")[0] == 200, "it is ready")
        until(lambda: values(ask(port, "/metrics")[1], "redactory_events_total") == [300], "all")
        text = ask(port, "/metrics")[1]
        assert ask(port, "/healthz") == (200, "ok\n")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
    finally:
        if process.poll() is None:
            kill(process)
    assert values(text, "redactory_lag_messages") == [0, 0]
    assert values(text, "redactory_workers") == [2, 2, 2]
    assert json.loads(out)["counts"]["events"] == 300
    said = [json.loads(line) for line in err.splitlines()]
    assert {each["level"] for each in said} == {"info"}
    assert max(each.get("events", 0) for each in said) <= 300
    assert values(text, "redactory_redactions_total") == [30]
    assert not [word for word in (secret, "event-", "run-0") if word in text + err]
