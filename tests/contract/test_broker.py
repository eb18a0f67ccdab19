"""The local broker, as a real process."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pipeline import broker
from pipeline.errors import BrokerError, UsageError
from pipeline.kafka import client_config, ensure_topic, watermarks

Port = Callable[[], int]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory whose broker these tests start and stop in turn."""
    directory = tmp_path_factory.mktemp("home") / "broker"
    yield directory
    broker.stop(directory)


@pytest.fixture
def running(home: Path, free_port: Port) -> broker.Broker:
    """The broker of `home`, started again if a test has ended it."""
    return broker.find(home) or broker.start(home, free_port(), print)


def test_a_second_start_returns_the_broker_that_runs(home: Path, running: broker.Broker) -> None:
    assert broker.start(home, running.port, print) == running
    assert broker.start(home, None, print) == running
    assert broker.find(home) == running


@pytest.mark.usefixtures("running")
def test_a_start_on_another_port_is_refused_while_one_runs(home: Path, free_port: Port) -> None:
    with pytest.raises(UsageError) as refused:
        broker.start(home, free_port(), print)
    assert refused.value.code == "broker-running"


def test_it_listens_on_the_loopback_only(running: broker.Broker) -> None:
    listening = [
        c.laddr.ip
        for c in psutil.Process(running.pid).net_connections("inet")
        if c.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 2
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_messages_outlive_kill_9_and_a_restart(home: Path, running: broker.Broker) -> None:
    ensure_topic(running.bootstrap, "kept")
    producer = Producer(client_config(running.bootstrap, acks="all"))
    for number in range(100):
        producer.produce("kept", str(number), timestamp=1_000_000_000_000)  # the year 2001
    assert producer.flush(10) == 0
    os.kill(running.pid, signal.SIGKILL)

    again = broker.start(home, running.port, print)

    assert again.pid != running.pid
    consumer = Consumer(client_config(again.bootstrap, **{"group.id": "test"}))
    assert watermarks(consumer, "kept", 0) == (0, 100)
    consumer.assign([TopicPartition("kept", 0, 0)])
    assert [m.value() for m in consumer.consume(100, 20)] == [b"%d" % n for n in range(100)]
    consumer.close()


def test_stop_ends_the_process_and_keeps_the_data(home: Path, running: broker.Broker) -> None:
    assert broker.stop(home) == running
    assert broker.find(home) is None
    assert _has_ended(running.pid)
    assert (home / "data" / "meta.properties").exists()
    assert broker.stop(home) is None


def test_a_pid_file_of_the_past_does_not_end_an_unrelated_process(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        started_s = psutil.Process(bystander.pid).create_time()
        state = {"pid": bystander.pid, "started_s": started_s, "port": 1}
        (tmp_path / "broker.json").write_text(json.dumps(state))
        assert broker.find(tmp_path) is None
        assert broker.stop(tmp_path) is None
        assert bystander.poll() is None
        bystander.kill()


def test_an_interrupted_start_leaves_nothing_running(tmp_path: Path, free_port: Port) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("waiting"):
            raise KeyboardInterrupt

    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        broker.start(tmp_path / "broker", free_port(), interrupt)
    assert set(psutil.Process().children()) <= before
    assert broker.find(tmp_path / "broker") is None


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} is taken"):
            broker.start(tmp_path / "broker", port, print)


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="holds other files"):
        broker.start(tmp_path, None, print)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        broker.start(tmp_path / "file", None, print)


def test_without_java_the_error_says_which_one_is_needed(
    tmp_path: Path, free_port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerError, match="needs Java 17"):
        broker.start(tmp_path / "broker", free_port(), print)


def test_an_old_java_is_not_started(
    tmp_path: Path, free_port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path / "java", "echo 'openjdk version \"11.0.2\"' >&2")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(BrokerError, match="`java` is older"):
        broker.start(tmp_path / "broker", free_port(), print)


def test_without_maven_missing_jars_are_explained(
    tmp_path: Path, free_port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = shutil.which("java")
    assert java
    (tmp_path / "java").symlink_to(java)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BrokerError, match="`mvn` is not on the PATH"):
        broker.start(tmp_path / "broker", free_port(), print)


def test_jars_that_are_not_the_pinned_ones_are_refused_and_not_kept(
    tmp_path: Path, free_port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(
        tmp_path / "mvn",
        'for a; do case "$a" in -DoutputDirectory=*) d="${a#*=}";; esac; done',
        'mkdir -p "$d" && echo forged > "$d/kafka_2.13-4.4.0.jar"',
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BrokerError) as refused:
        broker.start(tmp_path / "broker", free_port(), print)
    assert refused.value.code == "jars-differ"
    assert list((tmp_path / "cache" / "redactory").iterdir()) == []


def test_the_commands_start_show_and_stop_it(tmp_path: Path, free_port: Port) -> None:
    directory = ["--dir", str(tmp_path / "broker"), "--json"]
    port = free_port()
    started = json.loads(_redactory("broker", "start", "--port", str(port), *directory).stdout)
    shown = json.loads(_redactory("broker", "status", *directory).stdout)
    assert started == shown
    assert shown["bootstrap"] == f"127.0.0.1:{port}"
    assert json.loads(_redactory("broker", "stop", *directory).stdout)["stopped"] is True
    stopped = _redactory("broker", "status", *directory)
    assert (stopped.returncode, json.loads(stopped.stdout)["state"]) == (1, "stopped")


def _has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _redactory(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _program(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
