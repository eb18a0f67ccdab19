"""Ten thousand broken messages: every one is accounted for, none is printed, nothing falls over."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from crash.canaries import Search, canaries
from crash.mutations import mutated
from running import query, redactory, succeed

from pipeline.deadletters import CODES

LARGEST = 3_000_000


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.full)])
def test_broken_messages_are_accounted_for_and_never_printed(
    count: int, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, lake, keys = make_topic(partitions=2), tmp_path / "lake", tmp_path / "keys.json"
    thousand = canaries(1000)
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": LARGEST})
    for value in mutated(thousand, count, count, time.time_ns() // 1000):
        producer.produce(topic, value=value, key=b"run-1", partition=len(value) % 2)
        producer.poll(0)
    assert producer.flush(60) == 0
    done = redactory(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake, "--keys", keys),
        *("--until-caught-up", "--max-dead-letter-rate", "1", "--slice-records", "500", "--json"),
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    counted = query(
        lake,
        "SELECT count(*) AS n, count(DISTINCT (kafka_partition, kafka_offset)) AS d FROM ("
        "SELECT kafka_partition, kafka_offset FROM stored_events UNION ALL "
        "SELECT kafka_partition, kafka_offset FROM dead_letters)",
    )
    # A time that was damaged may lie before the deadline: such an event is refused.
    stored = count - json.loads(done.stdout)["counts"]["refused"]
    assert counted == [{"n": stored, "d": stored}]
    codes = {row["code"] for row in query(lake, "SELECT DISTINCT code FROM dead_letters")}
    assert codes <= set(CODES)
    assert len(codes) >= 8, "many kinds of damage were done"
    # What is left after damage may be whole enough to be an event, its canary cut in two or not.
    search = Search(canary.secret for canary in thousand)
    assert search.in_bytes((done.stdout + done.stderr).encode()) == set()
    assert search.in_folders(lake / "dead_letters", lake / "_log") == {}
    succeed("verify", "--lake", lake, "--keys", keys, "--structure-only", "--processes", "1")


def test_a_topic_of_rubbish_stops_the_ingest_and_nothing_of_it_is_binned(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, lake = make_topic(), tmp_path / "lake"
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(500):
        producer.produce(topic, value=b"rubbish", key=b"run-1")
    assert producer.flush(60) == 0
    done = redactory(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake),
        *("--keys", tmp_path / "keys.json", "--until-caught-up"),
    )
    assert done.returncode == 3
    assert "500 of the last 500 messages" in done.stderr
    assert query(lake, "SELECT count(*) AS n FROM dead_letters") == [{"n": 0}]
