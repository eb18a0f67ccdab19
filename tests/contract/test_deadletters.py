"""Dead letters on a real broker: retried under other rules, they become events, once."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from redaction_samples import DENSE
from running import ingest, query, redactory, succeed
from scale import produce

from schemas import RunEvent, encode


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    rules = tmp_path / "rules.yaml"
    rules.write_text(DENSE)
    return rules


def test_what_the_rules_of_today_can_examine_becomes_an_event(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, dense: Path
) -> None:
    topic, lake, keys = make_topic(), tmp_path / "lake", tmp_path / "keys.json"
    produce(bootstrap, topic, 1, range(10))
    producer = Producer({"bootstrap.servers": bootstrap})
    event = RunEvent(
        event_id="dense",
        run_id="run-0",
        sequence=10,
        occurred_at=time.time_ns() // 1000,
        kind="message",
        body=json.dumps({"said": "q " * 20_000, "password": "calm heron 5519"}),
    )
    producer.produce(topic, value=encode(event), key=b"run-0", partition=0)
    producer.produce(topic, value=b"rubbish", key=b"run-0", partition=0)
    assert producer.flush(30) == 0
    report = ingest(bootstrap, topic, lake, keys, "--rules", str(dense))
    assert report["dead_letter_codes"] == {"too-dense": 1, "unknown-encoding": 1}
    words = ("deadletters", "retry", "--lake", lake, "--keys", keys, "--bootstrap", bootstrap)
    done = redactory(*words, "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout) == {"gone": 0, "stay": {"unknown-encoding": 1}, "stored": 1}
    rows = query(lake, "SELECT kafka_offset, body FROM events ORDER BY kafka_offset")
    assert [row["kafka_offset"] for row in rows] == list(range(11))
    assert "heron" not in rows[-1]["body"]
    assert query(lake, "SELECT code FROM dead_letters") == [{"code": "unknown-encoding"}]
    succeed("verify", "--lake", lake, "--keys", keys, "--against-topic", "--bootstrap", bootstrap)


def test_a_code_that_there_is_not_is_refused(tmp_path: Path) -> None:
    done = redactory(
        *("deadletters", "retry", "--lake", tmp_path, "--bootstrap", "127.0.0.1:1"),
        *("--code", "because"),
    )
    assert done.returncode == 2
    assert "no dead letter has this code" in done.stderr
