"""An ingest that is asked to end commits what is open, soon; and it needs bounded memory."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from running import kill, start, until
from scale import commits, holds_each_once, produce

from pipeline.config import IngestConfig, SliceLimits
from pipeline.lake.live import open_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.opening import check_start
from pipeline.supervisor import IngestReport, Supervisor
from schemas import RunEvent, encode

MakeTopic = Callable[..., str]


def test_asked_to_end_it_commits_what_is_open_and_leaves_nothing_half_done(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, lake, keys = make_topic(partitions=4), tmp_path / "lake", tmp_path / "keys.json"
    produce(bootstrap, topic, 4, range(700))
    words = ("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake, "--keys", keys)
    # Only a full slice or the end makes a commit.
    running = start(*words, "--slice-records", "200", "--flush-interval-s", "600", "--json")
    until(lambda: commits(lake, topic) >= 12, "every partition has three full slices", 120)
    running.terminate()
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    report = json.loads(out)
    assert report["restarts"] == 0
    store = Store.open(lake)
    positions = [PartitionLog(store, topic, partition).position() for partition in range(4)]
    assert all(position.open_intent is None for position in positions)
    assert sum(position.next_offset or 0 for position in positions) == report["counts"]["events"]
    assert list((lake / "_tmp").rglob("*.parquet")) == []


def test_a_worker_that_does_not_end_is_killed_after_a_while(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, lake, keys = make_topic(), tmp_path / "lake", tmp_path / "keys.json"
    produce(bootstrap, topic, 1, range(500))
    config = IngestConfig(
        bootstrap, topic, str(lake), keys=str(keys), limits=SliceLimits(records=50)
    )
    check_start(config)
    frozen: list[psutil.Process] = []

    def freeze_at_first_commit(report: IngestReport) -> None:
        if report.counts["commits"] and not frozen:
            frozen.extend(psutil.Process(os.getpid()).children())
            worker = next(each for each in frozen if "pipeline.worker" in each.cmdline())
            frozen[:] = [worker]
            worker.suspend()
            supervisor.request_stop()

    supervisor = Supervisor(config, 1, freeze_at_first_commit, grace_s=1.0)
    supervisor.run()
    until(lambda: not frozen[0].is_running(), "the worker is gone")
    Supervisor(
        IngestConfig(bootstrap, topic, str(lake), keys=str(keys), until_caught_up=True),
        1,
        lambda report: None,
    ).run()
    holds_each_once(lake, keys, 500)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("partitions", "size_bytes", "count"),
    [(64, 500, 120_000), (64, 100_000, 3_000), (4, 2_000_000, 150)],
)
def test_memory_is_bounded_whatever_waits_in_the_topic(
    partitions: int,
    size_bytes: int,
    count: int,
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    topic, lake = make_topic(partitions=partitions, max_message_bytes="9000000"), tmp_path / "lake"
    _fill(bootstrap, topic, partitions, size_bytes, count)
    running = start(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake),
        *("--keys", tmp_path / "keys.json"),
    )
    most = 0
    try:
        while _stored(lake) < count:
            most = max(most, _resident_bytes(running.pid))
            assert running.poll() is None
            time.sleep(0.2)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=120)
    finally:
        if running.poll() is None:
            kill(running)
    assert most < 1_200e6, f"{most / 1e6:.0f} MB"


def _fill(bootstrap: str, topic: str, partitions: int, size_bytes: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 9_000_000})
    text = "the agent reads a file and runs the tests again " * (size_bytes // 48 + 1)
    for n in range(count):
        event = RunEvent(
            event_id=f"event-{n}",
            run_id=f"run-{n % 500}",
            sequence=n // 500,
            occurred_at=time.time_ns() // 1000,
            kind="message",
            body=json.dumps({"n": n, "said": text}),
        )
        while True:
            try:
                producer.produce(
                    topic, encode(event), key=event.run_id.encode(), partition=n % partitions
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def _stored(lake: Path) -> int:
    if not (lake / "_log").is_dir():
        return 0
    return sum(file.rows for file in open_lake(lake).files["events"])


def _resident_bytes(pid: int) -> int:
    """Of the command and its workers."""
    total = 0
    for each in (process := psutil.Process(pid), *process.children(recursive=True)):
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
