"""A real one-node Kafka on this machine: start, find, stop.

Everything lies under one directory: `data/` (the log, kept over restarts), `server.properties`,
`broker.log` and `broker.json` (which process it is).
"""

import base64
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import as_file, files
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.broker.jars import fetch_jars
from pipeline.broker.settings import JVM_FLAGS, server_settings, to_properties
from pipeline.errors import BrokerError, UsageError
from pipeline.kafka import client_config

DEFAULT_PORT = 9092
JAVA_VERSION = 17
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
PORT_TIMEOUT_S = 2.0
"""A broker that was just killed lets go of its port a moment after it is gone."""

_CLOCK_STEP_S = 2.0

Report = Callable[[str], None]
"""Takes one line of progress for a person."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker process; `started_s` (epoch seconds) tells it from a later one with its pid."""

    pid: int
    started_s: float
    port: int

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def start(directory: Path, port: int | None, report: Report) -> Broker:
    """Starts a broker and waits until it answers; one that already runs there is returned as is.

    `port` None: the running one's, else 9092.

    Raises UsageError for a directory or port that cannot be used, BrokerError if Java or the jars
    are missing or the broker does not come up.
    """
    directory = _prepare(directory)
    with _only_one_start(directory):
        running = find(directory)
        if running and port not in (None, running.port):
            raise UsageError(
                f"a broker already runs in {directory} on port {running.port}",
                code="broker-running",
                hint="stop it first, or leave out --port",
            )
        if running and _stays(running, directory):
            return running
        port = DEFAULT_PORT if port is None else port
        _check_port(port)
        java, jars = _java(), fetch_jars(report)
        (directory / "server.properties").write_text(
            to_properties(server_settings(port, free_port()))
        )
        if not _cluster_id(directory):
            report("formatting the broker's storage")
            _format(java, jars, directory)
        return _launch(java, jars, directory, port, report)


def find(directory: Path) -> Broker | None:
    """The broker that runs in `directory`, if one does."""
    try:
        broker = Broker(**json.loads((directory / "broker.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return broker if _process(broker, directory) else None


def stop(directory: Path) -> Broker | None:
    """Ends the broker that runs in `directory`; returns it, or None if there was none.

    Asks first (SIGTERM: a clean shutdown) and ends it by force only after 30 s.
    """
    directory = directory.absolute()
    broker = find(directory)
    process = broker and _process(broker, directory)
    if process:
        process.terminate()
        if not _wait_gone(process, STOP_TIMEOUT_S):
            process.kill()
            _wait_gone(process, STOP_TIMEOUT_S)
    (directory / "broker.json").unlink(missing_ok=True)
    return broker


def is_ready(broker: Broker, directory: Path, timeout_s: float = 1.0) -> bool:
    """Whether the broker of this directory, and no other on its port, answers a request."""
    admin = AdminClient(client_config(broker.bootstrap))
    try:
        metadata = admin.list_topics(timeout=timeout_s)
    except KafkaException:
        return False
    return bool(metadata.brokers) and metadata.cluster_id == _cluster_id(directory)


def _prepare(directory: Path) -> Path:
    """Makes the directory; refuses one that holds something else."""
    directory = directory.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in directory.iterdir()}
        if not os.access(directory, os.W_OK):
            raise PermissionError
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be used as the broker's directory ({type(error).__name__})",
            code="broker-directory",
            hint="give --dir a directory that you can write to",
        ) from None
    if names and "start.lock" not in names:
        raise UsageError(
            f"{directory} holds other files than a broker's",
            code="broker-directory",
            hint="give --dir an empty directory, or one of an earlier broker",
        )
    return directory


@contextmanager
def _only_one_start(directory: Path) -> Iterator[None]:
    with (directory / "start.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BrokerError(
                f"another start is under way in {directory}",
                code="broker-starting",
                hint="wait for it to end",
            ) from None
        yield


def _launch(java: str, jars: Path, directory: Path, port: int, report: Report) -> Broker:
    with as_file(files("pipeline.broker") / "log4j2.properties") as log4j:
        command = [
            java,
            *JVM_FLAGS,
            f"-Dlog4j2.configurationFile={log4j}",
            _mark(directory),
            *("-cp", f"{jars}/*", "kafka.Kafka", "server.properties"),
        ]
        with (directory / "broker.log").open("ab") as log:
            child = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            broker = Broker(child.pid, psutil.Process(child.pid).create_time(), port)
            (directory / "broker.json").write_text(json.dumps(asdict(broker)))
            report(f"waiting for the broker on {broker.bootstrap}")
            _await_ready(broker, directory)
        except BaseException:
            child.kill()
            child.wait()
            (directory / "broker.json").unlink(missing_ok=True)
            raise
    return broker


def _await_ready(broker: Broker, directory: Path) -> None:
    if not _stays(broker, directory):
        raise BrokerError(
            "the broker ended while it was starting",
            code="broker-failed",
            hint=f"see {directory / 'broker.log'}",
        )


def _stays(broker: Broker, directory: Path) -> bool:
    """Waits until the broker answers (True) or has ended (False)."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while _process(broker, directory):
        if is_ready(broker, directory):
            return True
        if time.monotonic() > deadline:
            raise BrokerError(
                f"the broker runs but did not answer within {START_TIMEOUT_S:.0f} s",
                code="broker-failed",
                hint=f"see {directory / 'broker.log'}, or stop it: redactory broker stop",
            )
    return False


def _format(java: str, jars: Path, directory: Path) -> None:
    # A dash in front would be read as an option.
    cluster_id = "r" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
    tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties"]
    done = subprocess.run(
        [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", *tool],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        (directory / "broker.log").write_bytes(done.stdout + done.stderr)
        raise BrokerError(
            "the broker's storage could not be formatted",
            code="broker-failed",
            hint=f"see {directory / 'broker.log'}",
        )


def _cluster_id(directory: Path) -> str | None:
    """The id of the formatted storage; None before it is formatted."""
    try:
        text = (directory / "data" / "meta.properties").read_text()
    except OSError:
        return None
    found = re.search(r"^cluster\.id=(.+)$", text, re.MULTILINE)
    return found[1] if found else None


def _java() -> str:
    java = shutil.which("java")
    if java:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        version = re.search(r'version "(\d+)', shown.stderr)
        if version and int(version[1]) >= JAVA_VERSION:
            return java
    raise BrokerError(
        f"the local broker needs Java {JAVA_VERSION} or newer"
        + (", and `java` is older" if java else ", and `java` is not on the PATH"),
        code="java-missing",
        hint="install a Java runtime, or give --bootstrap another Kafka cluster",
    )


def _check_port(port: int) -> None:
    deadline = time.monotonic() + PORT_TIMEOUT_S
    while not _is_free(port):
        if time.monotonic() > deadline:
            raise UsageError(
                f"port {port} is taken by another program or not allowed",
                code="port-taken",
                hint="give --port another one",
            )
        time.sleep(0.1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _mark(directory: Path) -> str:
    """A JVM flag by which the process can be told to be the one of this directory."""
    return f"-Dredactory.broker={directory}"


def _process(broker: Broker, directory: Path) -> psutil.Process | None:
    """The broker's process if it is alive and really ours: a pid can belong to another by now."""
    try:
        process = psutil.Process(broker.pid)
        same_start = abs(process.create_time() - broker.started_s) < _CLOCK_STEP_S
        ours = same_start and _mark(directory.absolute()) in _command(process)
        return process if ours and _is_alive(process) else None
    except psutil.Error:
        return None


def _command(process: psutil.Process) -> list[str]:
    """The command line; it is empty for a moment while a process is being started."""
    for _ in range(100):
        if (command := process.cmdline()) or not _is_alive(process):
            return command
        time.sleep(0.01)
    return []


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_gone(process: psutil.Process, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while _is_alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
