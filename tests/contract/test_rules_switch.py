"""Rules that change under a running ingest, on a real broker: every row names what masked it."""

import itertools
import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from psutil import Process
from running import COMMAND, ingest, kill, query, succeed, until

from pipeline.kafka import describe_topic
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.entries import Intent
from pipeline.lake.history import read_history
from pipeline.lake.layout import new_claim
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.retention.policy import load_policy
from redactors import KeyRing, load_ruleset, ruleset_digest, ruleset_document
from schemas import RunEvent, encode

PARTITIONS = 2


def rules_text(b_mode: str) -> str:
    """Rules for two values; the one for B acts, or is in shadow."""
    rules = "".join(
        f"  - {{id: {label.lower()}, kind: secret, label: {label}, pattern: '{label}_[a-z]{{8}}',\n"
        f"     reason: r, owner: o, matches: ['{label}_{{{{lower:8}}}}'], mode: {mode}}}\n"
        for label, mode in (("A", "act"), ("B", b_mode))
    )
    return f'name: ours\nversion: "{b_mode}"\nrules:\n{rules}'


def write(path: Path, text: str) -> str:
    """Replaces rules as a careful person does; gives their digest."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)
    return ruleset_digest(load_ruleset(path))


class Traffic:
    """Events with a value for each of two rules, to every partition in turn."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic, self._numbers = topic, itertools.count()

    def send(self, count: int) -> None:
        for n in itertools.islice(self._numbers, count):
            event = RunEvent(
                event_id=f"event-{n}",
                run_id=f"run-{n % PARTITIONS}",
                sequence=n,
                occurred_at=time.time_ns() // 1000,
                kind="message",
                body=json.dumps({"said": "first A_abcdefgh then B_abcdefgh"}),
            )
            self._producer.produce(
                self._topic, encode(event), key=event.run_id.encode(), partition=n % PARTITIONS
            )
        assert self._producer.flush(30) == 0


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return tmp_path / "ours.yaml"


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """What the ingest says on stderr."""
    return tmp_path / "said"


@pytest.fixture
def running(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, rules: Path, said: Path
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A topic, and an ingest of it by two workers under rules of which one is in shadow."""
    topic = make_topic(partitions=PARTITIONS)
    write(rules, rules_text("shadow"))
    words = [
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", tmp_path / "lake"),
        *("--keys", tmp_path / "keys.json", "--rules", rules, "--workers", "2", "--json"),
        *("--slice-records", "20", "--flush-interval-s", "0.2"),
    ]
    with said.open("w") as stderr:
        process = subprocess.Popen(
            [*COMMAND, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    yield topic, process
    if process.poll() is None:
        kill(process)


def written(lake: Path, topic: str) -> list[set[str]]:
    """Under which rulesets each partition was written so far."""
    store = Store.open(lake, create=True)
    return [
        {c.ruleset for c in read_history(store, topic, partition).commits if c.end > c.start}
        for partition in range(PARTITIONS)
    ]


def send_until_written(traffic: Traffic, lake: Path, topic: str, digest: str) -> None:
    def is_everywhere() -> bool:
        traffic.send(30)
        return all(digest in found for found in written(lake, topic))

    until(is_everywhere, f"rows under {digest[:12]} in every partition")


def test_a_running_ingest_takes_up_new_rules_and_refuses_bad_ones(
    running: tuple[str, subprocess.Popen[str]],
    bootstrap: str,
    tmp_path: Path,
    rules: Path,
    said: Path,
) -> None:
    (topic, process), lake = running, tmp_path / "lake"
    traffic, first = Traffic(bootstrap, topic), ruleset_digest(load_ruleset(rules))
    send_until_written(traffic, lake, topic, first)
    rules.write_text(rules_text("act").replace("reason: r", "reason: ''"))
    until(lambda: "are refused" in said.read_text(), "bad rules are refused")
    worker = next(p for p in Process(process.pid).children() if "pipeline.worker" in p.cmdline())
    worker.kill()  # the one that takes its place starts though bad rules stand there
    until(lambda: not worker.is_running(), "a worker is gone")
    traffic.send(60)
    second = write(rules, rules_text("act"))
    send_until_written(traffic, lake, topic, second)
    process.send_signal(signal.SIGTERM)
    report = json.loads(process.communicate(timeout=60)[0])
    assert (report["ruleset"], report["refused_rules"], report["restarts"]) == (second, None, 1)
    assert said.read_text().count("are refused") == 1
    assert f"{rules}:5: a: reason: say something here" in said.read_text().replace("\n", " ")

    assert written(lake, topic) == [{first, second}] * PARTITIONS
    rows = query(lake, "SELECT ruleset, body, kafka_partition AS p, kafka_offset AS o FROM events")
    expected = {first: "[A] then B_abcdefgh", second: "[A] then [B]"}
    assert all(expected[row["ruleset"]] in row["body"] for row in rows)
    commits = {
        (p, offset): commit.ruleset
        for p in range(PARTITIONS)
        for commit in read_history(Store.open(lake), topic, p).commits
        for offset in range(commit.start, commit.end)
    }
    assert {(row["p"], row["o"]): row["ruleset"] for row in rows} == {
        place: digest for place, digest in commits.items() if place[1] < _ends(rows)[place[0]]
    }
    history = json.loads(succeed("rules", "history", lake, "--json"))
    assert [each["digest"] for each in history] == [first, second]
    assert all(len(each["written"]) == PARTITIONS for each in history)
    (trial,) = json.loads(succeed("rules", "shadow", lake, "--json"))
    left = sum(1 for row in rows if row["ruleset"] == first)
    assert (trial["rule"], trial["ruleset"], trial["count"]) == ("b", first, left)
    assert trial["samples"] == ["/*: a [a] a [B]"]
    assert report["shadow"] == {"b": left}
    succeed(
        *("verify", "--lake", lake, "--keys", tmp_path / "keys.json"),
        *("--against-topic", "--bootstrap", bootstrap),
    )


def _ends(rows: list[dict[str, Any]]) -> dict[int, int]:
    return {p: 1 + max(row["o"] for row in rows if row["p"] == p) for p in range(PARTITIONS)}


def test_a_slice_begun_before_a_crash_is_redone_under_the_rules_of_then(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, rules: Path
) -> None:
    topic, lake, keys = make_topic(partitions=PARTITIONS), tmp_path / "lake", tmp_path / "keys.json"
    traffic, store = Traffic(bootstrap, topic), Store.open(lake, create=True)
    first = write(rules, rules_text("shadow"))
    traffic.send(2 * 10)
    ring, policy = KeyRing.generate(), load_policy()
    ring.save(keys)
    store_ruleset(store, first, ruleset_document(load_ruleset(rules)))
    store_policy(store, policy.digest, policy.document)
    left_behind = Intent(
        topic,
        describe_topic(bootstrap, topic).topic_id,
        *(0, 1, 0, 7, time.time_ns() // 1000),
        *(first, policy.digest, ring.current, new_claim(), ""),
    )
    PartitionLog(store, topic, 0).intend(left_behind)
    second = write(rules, rules_text("act"))
    ingest(bootstrap, topic, lake, keys, "--rules", str(rules))
    rows = query(
        lake, "SELECT ruleset, body, kafka_offset AS o FROM events WHERE kafka_partition=0"
    )
    assert {row["o"]: row["ruleset"] for row in rows} == {
        offset: first if offset < 7 else second for offset in range(10)
    }
    assert {row["o"] for row in rows if "B_abcdefgh" in row["body"]} == set(range(7))
    succeed("verify", "--lake", lake, "--keys", keys, "--against-topic", "--bootstrap", bootstrap)
