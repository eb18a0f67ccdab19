"""One schedule from beginning to end: traffic, workers that die, restarts, and the verdict."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crash.canaries import Canary, Search
from crash.evidence import Verdict, judge
from crash.kafka import CUT_S, Kafka
from crash.lives import PATIENCE_S, Life, begin
from crash.schedules import INSTANCES, Fault, Round, Schedule
from crash.traffic import Traffic
from lake_samples import sweep
from running import until

from pipeline.config import IngestConfig, SliceLimits
from pipeline.lake.layout import parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.opening import check_start

PARTITIONS = 4
ROUND_MESSAGES = 600
STRIKE_S = 45.0
"""How long a fault may take to come to pass before the round is over without it."""

ALL_ENDED_US = 4_000_000_000_000_000
"""An instant (epoch microseconds) at which every bucket of these tests has ended."""


@dataclass
class World:
    """A topic, a lake, and the folder in which all workers of a schedule live."""

    kafka: Kafka
    topic: str
    folder: Path
    keys: Path
    struck: list[Fault] = field(default_factory=list)
    missed: list[Fault] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    broker_events: Counter[str] = field(default_factory=Counter)
    sweeps: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.client_file.write_text(f"socket.timeout.ms={CUT_S * 900:.0f}\n")

    @property
    def client_file(self) -> Path:
        return self.folder / "client.properties"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def config(self, instance: int, *, until_caught_up: bool = False) -> IngestConfig:
        return IngestConfig(
            bootstrap=self.kafka.bootstrap,
            topic=self.topic,
            lake=str(self.lake),
            keys=str(self.keys),
            client_config=str(self.client_file),
            until_caught_up=until_caught_up,
            limits=SliceLimits(records=20, age_s=0.4),
            instance=instance,
            instances=INSTANCES,
        )

    def begin(
        self,
        instance: int,
        fault: Fault | None = None,
        clock_s: float = 0.0,
        *,
        until_caught_up: bool = False,
    ) -> Life:
        """A new worker of an instance."""
        config = self.config(instance, until_caught_up=until_caught_up)
        folder = self.folder / "lives" / f"{len(self.lives):03}"
        self.lives.append(begin(config, folder, fault, clock_s))
        return self.lives[-1]

    def run(self, round_: Round) -> None:
        """Both instances until the planned faults have struck; the frozen ones wake afterwards."""
        lives = [
            self.begin(instance, fault, clock_s)
            for instance, (fault, clock_s) in enumerate(
                zip(round_.faults, round_.clocks_s, strict=True)
            )
        ]
        marked = [life for life in lives if life.fault]
        self._befall_broker(round_)
        end_s = time.monotonic() + STRIKE_S
        while not all(life.is_struck or life.is_over for life in marked):
            if time.monotonic() > end_s:
                break
            time.sleep(0.02)
        for life in marked:
            assert life.fault is not None
            (self.struck if life.is_struck else self.missed).append(life.fault)
        for instance, life in enumerate(lives):
            if life.is_stopped:
                self._take_over(instance, life, round_)
        for life in lives:
            life.end()
            # A broker that comes back may not know its topics yet.
            away = ("broker-away", "topic-missing") if round_.broker else ()
            assert life.error in (*life.may_end_by, *away), (life.folder, life.error)

    def _befall_broker(self, round_: Round) -> None:
        if round_.broker == "kill":
            self.kafka.kill()
        elif round_.broker == "cut":
            self.kafka.cut_off()
        if round_.broker:
            self.broker_events[round_.broker] += 1

    def _take_over(self, instance: int, frozen: Life, round_: Round) -> None:
        """Another worker goes on for a frozen one and commits; then that one wakes."""
        fault = round_.successor
        if fault is not None:
            struck = self.begin(instance, fault, until_caught_up=True)
            until(lambda: struck.is_struck or struck.is_over, "the successor is struck", PATIENCE_S)
        self.catch_up([instance])
        if round_.sweep:
            self._sweep()
        frozen.thaw()
        # Overtaken it ends by itself; woken before it knew anything it may well go on.
        end_s = time.monotonic() + 3.0
        while not frozen.is_over and time.monotonic() < end_s:
            time.sleep(0.05)

    def _sweep(self) -> None:
        """Removes every bucket there is, as if its time had come."""
        store = Store.open(self.lake)
        files = (file for files in read_lake(store).files.values() for file in files)
        sweep(store, {parse_bucket(file.path) for file in files}, ALL_ENDED_US)
        self.sweeps += 1

    def catch_up(self, instances: Sequence[int] = range(INSTANCES)) -> None:
        """Workers to whom nothing happens read everything that stands in the topic."""
        lives = [self.begin(instance, until_caught_up=True) for instance in instances]
        for life in lives:
            until(lambda life=life: life.is_over, "everything is caught up", PATIENCE_S)
            assert life.process.exitcode == 0, (life.folder, life.error)


def play(
    schedule: Schedule,
    kafka: Kafka,
    make_topic: Callable[..., str],
    folder: Path,
    keys: Path,
    canaries: Sequence[Canary],
) -> tuple[World, Verdict]:
    """Runs a schedule with traffic all the while, then lets everything catch up and judges."""
    world = World(kafka, make_topic(partitions=PARTITIONS), folder, keys)
    check_start(world.config(0))
    try:
        with Traffic(kafka.bootstrap, world.topic, canaries, schedule.seed) as traffic:
            for round_ in schedule.rounds:
                traffic.allow(ROUND_MESSAGES)
                world.run(round_)
        world.catch_up()
    finally:
        for life in world.lives:
            life.kill()
    search = Search(canary.secret for canary in canaries)
    verdict = judge(world.lake, world.keys, traffic.sent, search, folder / "lives")
    if verdict.is_good:
        shutil.rmtree(folder)
    return world, verdict
