"""What goes wrong outside: one clear sentence, a distinct exit code, and nothing lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from running import ingest, kill, query, redactory, start, succeed, until

from pipeline import broker
from pipeline.kafka import ensure_topic
from schemas import RunEvent, encode


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def _produce(bootstrap: str, topic: str, count: int, size: int = 10) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    # Without repetitions, so that compression does not make a full disk empty.
    for n in range(count):
        event = RunEvent(
            event_id=f"event-{n}",
            run_id="run-1",
            sequence=n,
            occurred_at=time.time_ns() // 1000,
            kind="message",
            body=json.dumps({"n": n, "text": list(os.urandom(size))}),
        )
        producer.produce(topic, value=encode(event), key=b"run-1")
    assert producer.flush(30) == 0


def _fails(code: int, sentence: str, *words: str | Path) -> None:
    done = redactory("ingest", "--until-caught-up", *words)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4, done.stderr


def test_a_broker_that_is_away_at_the_start_is_told_in_one_sentence(
    free_port: Callable[[], int], tmp_path: Path, keys: Path
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    words = ("--bootstrap", nowhere, "--topic", "t", "--lake", tmp_path / "lake", "--keys", keys)
    _fails(3, "the broker does not answer", *words)


def test_a_missing_topic_is_told_in_one_sentence(
    bootstrap: str, tmp_path: Path, keys: Path
) -> None:
    words = ("--bootstrap", bootstrap, "--topic", "no-such", "--lake", tmp_path / "lake")
    _fails(3, "the topic no-such does not exist", *words, "--keys", keys)


def test_a_lake_that_cannot_be_written_is_told_before_anything_is_read(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    (tmp_path / "file").write_text("not a directory")
    lake = tmp_path / "file" / "lake"
    words = ("--bootstrap", bootstrap, "--topic", make_topic(), "--lake", lake, "--keys", keys)
    _fails(3, "the lake", *words)


def test_a_bad_rules_file_stops_the_start_and_names_the_line(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("name: mine\nversion: '1'\nruls: []\n")
    words = ("--bootstrap", bootstrap, "--topic", make_topic(), "--lake", tmp_path / "lake")
    _fails(2, f"{rules}:3", *words, "--keys", keys, "--rules", rules)
    assert not (tmp_path / "lake").exists()


def test_the_broker_may_go_away_in_the_middle_and_come_back(
    free_port: Callable[[], int], tmp_path: Path, keys: Path
) -> None:
    directory, port, lake = tmp_path / "broker", free_port(), tmp_path / "lake"
    running = broker.start(directory, port, lambda line: None)
    ensure_topic(running.bootstrap, "t")
    _produce(running.bootstrap, "t", 500)
    process = start(
        *("ingest", "--bootstrap", running.bootstrap, "--topic", "t", "--lake", lake),
        *("--keys", keys, "--flush-interval-s", "0.5", "--json"),
    )
    try:
        log = lake / "_log" / "t"
        until(lambda: any(log.rglob("*.commit")), "the first commit")
        broker.stop(directory)
        time.sleep(2)
        assert process.poll() is None, "it waits"
        broker.start(directory, port, lambda line: None)
        _produce(running.bootstrap, "t", 300)
        until(
            lambda: query(lake, "SELECT count(*) AS n FROM stored_events") == [{"n": 800}],
            "the rest",
        )
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert json.loads(out)["counts"]["events"] == 800
        assert "waiting for the broker" in err
    finally:
        if process.poll() is None:
            kill(process)
        broker.stop(directory)


def test_of_two_ingests_on_one_partition_one_stops_and_nothing_is_doubled(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(), tmp_path / "lake"
    words = ("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake, "--keys", keys)
    _produce(bootstrap, topic, 100)
    ingest(bootstrap, topic, lake, keys)
    both = [start(*words, "--flush-interval-s", "0.3") for _ in range(2)]
    try:
        count, end_s = 100, time.monotonic() + 120
        while all(p.poll() is None for p in both):  # sooner or later both meet the same data
            assert time.monotonic() < end_s, "never happened: one of them stops"
            _produce(bootstrap, topic, 20)
            count += 20
            time.sleep(0.5)
        loser = next(p for p in both if p.poll() is not None)
        winner = next(p for p in both if p is not loser)
        _, err = loser.communicate(timeout=30)
        assert loser.returncode == 3
        assert "another writer" in err
        until(
            lambda: query(lake, "SELECT count(*) AS n FROM stored_events") == [{"n": count}],
            "the rest",
        )
        winner.send_signal(signal.SIGINT)
        _, err = winner.communicate(timeout=30)
        assert winner.returncode == 0, err
        succeed("verify", "--lake", lake, "--keys", keys)
    finally:
        for process in both:
            if process.poll() is None:
                kill(process)


FULL_DISK = """
set -e
mount -t tmpfs -o size=3m tmpfs "$LAKE"
set +e
"$@" 2> "$OUT/first.err"; echo $? > "$OUT/first.code"
set -e
mount -o remount,size=300m,ro "$LAKE"
set +e
"$@" 2> "$OUT/locked.err"; echo $? > "$OUT/locked.code"
set -e
mount -o remount,rw "$LAKE"
"$@" 2> "$OUT/second.err"
cp -r "$LAKE" "$OUT/lake"
"""


def test_a_full_or_locked_disk_stops_it_and_with_space_it_goes_on(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(), tmp_path / "small"
    lake.mkdir()
    _produce(bootstrap, topic, 4000, size=1000)
    unshare = shutil.which("unshare")
    assert unshare, "util-linux is everywhere"
    words = ["ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", str(lake)]
    words += ["--keys", str(keys), "--until-caught-up", "--slice-records", "400"]
    command = [sys.executable, "-P", "-m", "pipeline", *words]
    done = subprocess.run(
        [unshare, "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh", *command],
        env={**os.environ, "LAKE": str(lake), "OUT": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr + (tmp_path / "second.err").read_text()
    assert (tmp_path / "first.code").read_text().strip() == "3"
    assert "the lake's disk is full" in (tmp_path / "first.err").read_text()
    assert (tmp_path / "locked.code").read_text().strip() == "3"
    assert "read-only file system" in (tmp_path / "locked.err").read_text()
    stored = query(
        tmp_path / "lake", "SELECT count(*) AS n, count(DISTINCT sequence) AS d FROM stored_events"
    )
    assert stored == [{"n": 4000, "d": 4000}]
    succeed("verify", "--lake", tmp_path / "lake", "--keys", keys)
