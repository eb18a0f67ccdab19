"""The spool: an agent never waits for its broker, and nothing is dropped silently."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from replay_samples import record, recording

from pipeline.emitter import Emitter, Shipper, Spool, SpoolFull, World
from pipeline.emitter.shipping import deliver_left
from pipeline.emitter.spool import read_spool
from pipeline.errors import BrokerError, PipelineError
from schemas import RunEvent, encode_json

EVENT = RunEvent(event_id="e", run_id="r", sequence=0, occurred_at=0, kind="message", body="{}")
ADDRESS = "jane.doe@example.com"


class Broker:
    """Takes events while it is up; away, it raises as an emitter does."""

    def __init__(self, *, is_up: bool = True) -> None:
        self.is_up = is_up
        self.events: list[RunEvent] = []
        self.tries = 0
        self._taken: list[RunEvent] = []

    def emit(self, event: RunEvent) -> None:
        self._taken.append(event)

    def flush(self) -> None:
        self.tries += 1
        taken, self._taken = self._taken, []
        if not self.is_up:
            raise BrokerError("away", code="broker-away")
        self.events += taken


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_events_are_delivered_in_order_and_the_spool_goes(tmp_path: Path) -> None:
    broker = Broker()
    with Shipper(tmp_path, lambda: broker) as shipper:
        for sequence in range(50):
            shipper.emit(replace(EVENT, sequence=sequence))
    assert [event.sequence for event in broker.events] == list(range(50))
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_while_the_broker_is_away_and_is_delivered_on_its_return(
    tmp_path: Path,
) -> None:
    broker = Broker(is_up=False)

    def agent(world: World) -> None:
        world.effect("send", {"to": ADDRESS}, lambda asked, key: until(lambda: broker.tries > 0))

    with Shipper(tmp_path, lambda: broker) as shipper:
        with recording().run({"from": ADDRESS}, shipper, run_id="run-1") as world:
            agent(world)
        assert broker.events == []
        (path,) = tmp_path.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert ADDRESS.encode() not in path.read_bytes()
        broker.is_up = True
        until(lambda: bool(broker.events))
    kinds = [event.kind for event in broker.events]
    assert kinds[-3:] == ["effect.intended", "effect.completed", "run.finished"]


def test_what_a_process_left_is_delivered_by_the_next(tmp_path: Path) -> None:
    spool, broker = Spool(tmp_path / "gone.spool"), Broker()
    spool.emit(EVENT)
    spool.close()
    assert deliver_left(tmp_path, lambda: broker) == 1
    assert broker.events == [EVENT] and list(tmp_path.iterdir()) == []


def test_a_spool_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "mine.spool")
    spool.emit(EVENT)
    assert deliver_left(tmp_path, Broker) == 0
    with pytest.raises(PipelineError, match="in use"):
        Spool(tmp_path / "mine.spool")
    spool.close()


def test_a_full_spool_raises_and_keeps_what_it_has(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "small.spool", max_bytes=3 * len(encode_json(EVENT)))
    taken = 0
    with pytest.raises(SpoolFull) as caught:
        for _ in range(10):
            spool.emit(EVENT)
            taken += 1
    assert 0 < taken < 10 and caught.value.exit_code == 3
    assert len(read_spool(tmp_path / "small.spool")) == taken


def test_an_effect_is_not_made_if_its_intent_finds_no_room(tmp_path: Path) -> None:
    run = record(lambda world, task: world.effect("send", {}, lambda asked, key: None))
    before = sum(len(encode_json(event)) + 60 for event in run.events[:4])
    spool = Spool(tmp_path / "small.spool", max_bytes=before)
    made: list[Any] = []

    def agent(world: World) -> None:
        while True:
            world.effect("send", {}, lambda asked, key: made.append(key))

    with pytest.raises(SpoolFull), recording().run(None, spool, run_id="run-1") as world:
        agent(world)
    intended = [e for e in read_spool(tmp_path / "small.spool") if e.kind == "effect.intended"]
    assert len(intended) >= len(made)


def test_half_a_line_of_a_process_that_died_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "torn.spool"
    whole = encode_json(EVENT) + b"\n"
    path.write_bytes(whole + whole[:20])
    assert read_spool(path) == [EVENT]
    spool = Spool(path)
    spool.emit(replace(EVENT, sequence=1))
    assert [event.sequence for event in read_spool(path)] == [0, 1]


def test_threads_may_share_a_spool(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "shared.spool")

    def emit(number: int) -> None:
        for sequence in range(100):
            spool.emit(replace(EVENT, run_id=f"r{number}", sequence=sequence))

    threads = [threading.Thread(target=emit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = read_spool(tmp_path / "shared.spool")
    assert len(events) == 400
    for number in range(4):
        mine = [event.sequence for event in events if event.run_id == f"r{number}"]
        assert mine == list(range(100))


def test_a_killed_agent_leaves_its_events_for_a_real_broker(
    tmp_path: Path, bootstrap: str, make_topic: Callable[..., str]
) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; "
        "from pipeline.emitter import Shipper; from pipeline.errors import BrokerError; "
        "from schemas import decode; "
        "from pipeline.emitter.spool import Spool; "
        f"spool = Spool(Path({str(tmp_path)!r}) / 'dead.spool'); "
        f"spool.emit(decode({encode_json(EVENT)!r})); spool.sync(); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run([sys.executable, "-c", program], env=os.environ, check=False)
    assert died.returncode == -signal.SIGKILL
    topic = make_topic()
    made: list[Emitter] = []

    def connect() -> Emitter:
        made.append(Emitter(bootstrap, topic))
        return made[0]

    with Shipper(tmp_path, connect, grace_s=60) as shipper:
        shipper.emit(replace(EVENT, sequence=1))
        until(lambda: bool(made) and made[0].delivered == 2)
    assert list(tmp_path.iterdir()) == []
