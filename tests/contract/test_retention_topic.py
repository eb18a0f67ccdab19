"""The raw topic on a real broker: what is committed is deleted, and settings are kept in bounds."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from running import ingest, query, redactory, succeed

from pipeline.errors import BrokerError
from pipeline.kafka import watermarks
from pipeline.lake.store import Store
from pipeline.retention.policy import load_policy
from pipeline.retention.topic import RawTopic, find_drift
from schemas import RunEvent, encode

DAY_MS = 86_400_000


def produce(bootstrap: str, topic: str, start: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for index in range(start, end):
        event = RunEvent(
            event_id=f"event-{index}",
            run_id="run-1",
            sequence=index,
            occurred_at=time.time_ns() // 1000,
            kind="message",
            body='{"text":"kept"}',
        )
        producer.produce(topic, value=encode(event), key=b"run-1")
    assert producer.flush(30) == 0


def kept_offsets(bootstrap: str, topic: str) -> tuple[int, int]:
    """The oldest offset that the topic has and the one its next record will get."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looking"})
    try:
        return watermarks(consumer, topic, 0)
    finally:
        consumer.close()


def test_what_is_committed_is_deleted_and_nothing_beyond(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, lake, keys = make_topic(), tmp_path / "lake", tmp_path / "keys.json"
    produce(bootstrap, topic, 0, 30)
    ingest(bootstrap, topic, lake, keys, "--slice-records", "10")
    assert kept_offsets(bootstrap, topic) == (0, 30)
    # Committed and not deleted, as after a crash in between: the next ingest makes up for it.
    ingest(bootstrap, topic, lake, keys, "--delete-consumed")
    assert kept_offsets(bootstrap, topic) == (30, 30)
    produce(bootstrap, topic, 30, 45)
    ingest(bootstrap, topic, lake, keys, "--delete-consumed", "--slice-records", "10")
    produce(bootstrap, topic, 45, 50)
    assert kept_offsets(bootstrap, topic) == (45, 50)
    ingest(bootstrap, topic, lake, keys)
    assert kept_offsets(bootstrap, topic) == (45, 50)
    rows = query(lake, "SELECT kafka_offset FROM events ORDER BY ALL")
    assert [row["kafka_offset"] for row in rows] == list(range(50))
    succeed("verify", "--lake", lake, "--keys", keys, "--structure-only")


def test_a_topic_of_the_same_name_that_the_lake_never_read_is_left_alone(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 0, 3)
    RawTopic(bootstrap, topic).delete_consumed(Store.open(tmp_path / "lake", create=True))
    assert kept_offsets(bootstrap, topic) == (0, 3)
    with pytest.raises(BrokerError):
        RawTopic(bootstrap, topic).delete_before(0, 4)
    assert kept_offsets(bootstrap, topic) == (0, 3)


def test_settings_under_which_raw_records_stay_too_long_are_found_and_repaired(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(
        retention_ms="-1", cleanup_policy="compact", message_timestamp_after_max_ms=str(9 * DAY_MS)
    )
    words = ("retention", "topic", topic, "--bootstrap", bootstrap, "--json")
    found = redactory(*words)
    assert found.returncode == 1
    assert [
        (each["setting"], each["found"], each["wanted"]) for each in json.loads(found.stdout)
    ] == [
        ("cleanup.policy", "compact", "delete"),
        ("segment.ms", str(7 * DAY_MS), str(3 * DAY_MS // 4)),
        ("retention.ms", "-1", str(3 * DAY_MS - 3 * DAY_MS // 4)),
        ("message.timestamp.after.max.ms", str(9 * DAY_MS), str(DAY_MS)),
    ]
    assert redactory(*words, "--repair").returncode == 0
    assert find_drift(RawTopic(bootstrap, topic).settings(), load_policy()) == ()
    assert redactory(*words).returncode == 0
