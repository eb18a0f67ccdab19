"""Emitting to a real broker: all arrives once, in order, where a Java client would put it."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition
from conformance import partition_of
from running import redactory, succeed

from pipeline.demo_agent import demo_events
from pipeline.emitter import Emitter
from schemas import RunEvent, decode, encode_json

NOW_US = 1_772_366_400_000_000
PARTITIONS = 4


def messages(bootstrap: str, topic: str, count: int) -> list[Message]:
    """The topic's messages, after checking that there are `count`."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False}
    )
    partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(partition, 10.0) for partition in partitions]
    assert sum(end[1] for end in ends if end) == count
    consumer.assign(partitions)
    found: list[Message] = []
    while len(found) < count:
        batch = consumer.consume(count, 10.0)
        assert batch, f"only {len(found)} of {count} messages"
        assert all(message.error() is None for message in batch)
        found.extend(batch)
    consumer.close()
    return found


def test_every_event_arrives_once_in_order_in_the_partition_of_its_run(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    events = list(demo_events(20, 1, NOW_US))
    with Emitter(bootstrap, topic) as emitter:
        for event in events:
            emitter.emit(event, headers={"trace": b"1"})
    assert emitter.delivered == len(events)

    by_run: dict[str, list[RunEvent]] = defaultdict(list)
    for message in messages(bootstrap, topic, len(events)):
        value, key = message.value(), message.key()
        assert isinstance(value, bytes) and isinstance(key, bytes)
        event = decode(value)
        by_run[event.run_id].append(event)
        assert key == event.run_id.encode()
        assert message.headers() == [("trace", b"1")]
        assert message.partition() == partition_of(event.run_id, PARTITIONS)
    told: dict[str, list[RunEvent]] = defaultdict(list)
    for event in events:
        told[event.run_id].append(event)
    assert by_run == told


def test_a_file_is_emitted_to_a_topic_made_for_it(bootstrap: str, tmp_path: Path) -> None:
    events = list(demo_events(3, 2, NOW_US))
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"\n".join(encode_json(event) for event in events))
    topic = f"emitted-from-a-file-{tmp_path.name}"
    words = ("emit", path, "--topic", topic, "--bootstrap", bootstrap)
    summary = json.loads(succeed(*words, "--partitions", str(PARTITIONS), "--json"))
    assert summary | {"bytes": 0} == {
        "files": 1,
        "runs": 3,
        "events": len(events),
        "bytes": 0,
        "refused": 0,
    }
    succeed(*words)
    found = [decode(message.value()) for message in messages(bootstrap, topic, 2 * len(events))]
    assert Counter(event.event_id for event in found) == {event.event_id: 2 for event in events}


def test_a_file_that_cannot_be_read_is_one_sentence_with_its_line(
    bootstrap: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"event_id": "canary", "run_id": "r", "kind": "message"}\n')
    done = redactory("emit", path, "--topic", "unused", "--bootstrap", bootstrap)
    assert done.returncode == 3
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"error: {path}:1: ") and "canary" not in done.stderr


def test_a_broker_that_does_not_answer_is_one_sentence(
    free_port: Callable[[], int], tmp_path: Path
) -> None:
    (event,) = list(demo_events(1, 1, NOW_US))[:1]
    path = tmp_path / "runs.jsonl"
    path.write_bytes(encode_json(event))
    done = redactory("emit", path, "--topic", "t", "--bootstrap", f"127.0.0.1:{free_port()}")
    assert done.returncode == 3
    assert done.stderr.startswith("error: the broker does not answer")
