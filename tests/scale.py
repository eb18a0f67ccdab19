"""What the tests of runners and instances share: numbered events, and that each is there once."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import Producer
from running import query, succeed

from schemas import RunEvent, encode


def produce(
    bootstrap: str, topic: str, partitions: int, numbers: Iterable[int], secret: str = ""
) -> None:
    """An event for each number in each partition, one run a partition; every tenth has a secret."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        for partition in range(partitions):
            hidden = {"password": secret} if secret and number % 10 == 0 else {}
            event = RunEvent(
                event_id=f"event-{partition}-{number}",
                run_id=f"run-{partition}",
                sequence=number,
                occurred_at=time.time_ns() // 1000,
                kind="message",
                body=json.dumps({"n": number, **hidden}),
            )
            producer.produce(
                topic, value=encode(event), key=event.run_id.encode(), partition=partition
            )
            producer.poll(0)
    assert producer.flush(60) == 0


def commits(lake: Path, topic: str) -> int:
    """How many slices of the topic are in the lake."""
    return sum(1 for _ in (lake / "_log" / topic).rglob("*.commit"))


def holds_each_once(lake: Path, keys: Path, count: int) -> None:
    """The lake holds `count` events, none twice, and is whole."""
    counted = query(
        lake,
        "SELECT count(*) AS n, count(DISTINCT (kafka_partition, kafka_offset)) AS d, "
        "count(DISTINCT event_id) AS e FROM stored_events",
    )
    assert counted == [{"n": count, "d": count, "e": count}]
    succeed("verify", "--lake", lake, "--keys", keys, "--structure-only", "--processes", "1")
