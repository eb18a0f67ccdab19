"""`redactory doctor` at a real broker: each failure is told, with what to do, and nothing raw."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from running import redactory, succeed

from pipeline.config import IngestConfig
from pipeline.doctor import lake, topic
from pipeline.doctor.examine import examine
from pipeline.kafka import describe_topic
from pipeline.lake.entries import Intent
from pipeline.lake.layout import new_claim
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from redactors import KeyRing

PAYLOAD = b"nobody should read this"


def _produce(bootstrap: str, topic: str, at_s: float) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, PAYLOAD, PAYLOAD, timestamp=int(at_s * 1000))
    assert producer.flush(30) == 0


def test_an_ingest_that_would_run_gets_no_word_of_advice(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    name = make_topic(partitions=2, retention_ms="3600000", segment_ms="3600000")
    _produce(bootstrap, name, time.time())
    keys, place = tmp_path / "keys.json", tmp_path / "lake"
    KeyRing.generate().save(keys)
    place.mkdir(mode=0o700)
    words = ("doctor", "--bootstrap", bootstrap, "--topic", name, "--lake", place, "--keys", keys)
    found = json.loads(succeed(*words, "--workers", "2", "--json"))
    assert found["ok"]
    assert {(each["level"], each["advice"]) for each in found["findings"]} == {("ok", "")}
    assert [each["what"] for each in found["findings"]] == [
        *("versions", "keys", "rules", "policy", "broker", "topic", "partitions", "rights"),
        *("retention", "clock", "lake", "put-if-absent", "clock", "log"),
    ]


def test_a_failure_is_a_line_with_what_to_do_and_exit_code_1(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    name = make_topic(retention_ms="-1", segment_ms="3600000")
    done = redactory("doctor", "--bootstrap", bootstrap, "--topic", name)
    assert (done.returncode, done.stderr) == (1, "")
    assert [line for line in done.stdout.splitlines() if line.startswith("fail")] == [
        "fail  retention: retention.ms is -1, the policy wants 255600000: a raw record may outlive "
        f"the shortest-lived row — redactory retention topic {name} --bootstrap {bootstrap} "
        "--repair"
    ]


def test_a_broker_that_is_away_is_told_once(free_port: Callable[[], int]) -> None:
    findings = examine(IngestConfig(f"127.0.0.1:{free_port()}", "t", ""), 1, time.time)
    assert [(each.what, each.level) for each in findings[4:]] == [("broker", "fail")]
    assert findings[4].seen == "the broker does not answer"


def test_a_topic_that_is_missing_is_told_once(bootstrap: str) -> None:
    findings = examine(IngestConfig(bootstrap, "no-such", ""), 1, time.time)
    assert [(each.what, each.level) for each in findings[4:]] == [
        ("broker", "ok"),
        ("topic", "fail"),
    ]


def test_more_workers_than_partitions_are_told(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    config = IngestConfig(bootstrap, make_topic(partitions=2), "")
    (found,) = topic.partitions(config, workers=3)
    assert (found.level, found.seen) == ("warn", "2 for 3 workers")


def test_a_record_from_the_future_is_told_and_not_read(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    config = IngestConfig(bootstrap, make_topic(), "")
    assert list(topic.clock(config, time.time())) == []
    _produce(bootstrap, config.topic, time.time() + 600)
    (found,) = topic.clock(config, time.time())
    assert (found.level, PAYLOAD.decode() in str(found)) == ("warn", False)


def test_a_slice_that_was_begun_under_a_key_that_is_gone_is_told(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    keys, config = _begun(bootstrap, make_topic(), tmp_path)
    assert [each.level for each in lake.log(config)] == ["ok"]
    keys.unlink()
    KeyRing.generate().save(keys)
    (found,) = lake.log(config)
    assert (found.level, found.advice.rpartition(": ")[2]) == ("fail", "redactory log supersede")


def test_a_topic_that_was_made_again_is_told(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    _, config = _begun(bootstrap, make_topic(), tmp_path, topic_id="another")
    (found,) = lake.log(config)
    assert (found.level, "made again" in found.seen) == ("fail", True)


def _begun(
    bootstrap: str, name: str, folder: Path, topic_id: str | None = None
) -> tuple[Path, IngestConfig]:
    """A lake whose one slice of the topic was begun, under the key of a file."""
    ring, keys = KeyRing.generate(), folder / "keys.json"
    ring.save(keys)
    store = Store.open(folder / "lake", create=True)
    topic_id = topic_id or describe_topic(bootstrap, name).topic_id
    digests = ("ab" * 32, "cd" * 32)
    intent = Intent(name, topic_id, 0, 1, 0, 5, 1, *digests, ring.current, new_claim(), "")
    PartitionLog(store, name, 0).intend(intent)
    return keys, IngestConfig(bootstrap, name, str(folder / "lake"), keys=str(keys))
