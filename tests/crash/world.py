"""One schedule from beginning to end: traffic, workers that die, restarts, and the verdict."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crash.canaries import Canary, Search
from crash.evidence import Verdict, judge
from crash.lives import Life, begin
from crash.schedules import INSTANCES, Fault, Round, Schedule
from crash.traffic import Traffic
from running import until

from pipeline.config import IngestConfig, SliceLimits
from pipeline.opening import check_start

PARTITIONS = 4
ROUND_MESSAGES = 600
STRIKE_S = 45.0
"""How long a fault may take to come to pass before the round is over without it."""

OVERTAKEN = {"lost-partition", "taken-over", "not-contiguous"}
"""How a worker may end that slept while another went on."""


@dataclass
class World:
    """A topic, a lake, and the folder in which all workers of a schedule live."""

    bootstrap: str
    topic: str
    folder: Path
    struck: list[Fault] = field(default_factory=list)
    missed: list[Fault] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def keys(self) -> Path:
        return self.folder / "keys.json"

    def config(self, instance: int, *, until_caught_up: bool = False) -> IngestConfig:
        return IngestConfig(
            bootstrap=self.bootstrap,
            topic=self.topic,
            lake=str(self.lake),
            keys=str(self.keys),
            until_caught_up=until_caught_up,
            limits=SliceLimits(records=12, age_s=0.4),
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
                self._take_over(instance, life, round_.successor)
        for life in lives:
            life.end()
            assert life.error in (None, *OVERTAKEN), (life.folder, life.error)

    def _take_over(self, instance: int, frozen: Life, fault: Fault | None) -> None:
        """Another worker goes on for a frozen one and commits; then that one wakes."""
        if fault is not None:
            struck = self.begin(instance, fault, until_caught_up=True)
            until(lambda: struck.is_struck or struck.is_over, "the successor is struck")
        self.catch_up([instance])
        frozen.thaw()
        # Overtaken it ends by itself; woken before it knew anything it may well go on.
        end_s = time.monotonic() + 3.0
        while not frozen.is_over and time.monotonic() < end_s:
            time.sleep(0.05)

    def catch_up(self, instances: Sequence[int] = range(INSTANCES)) -> None:
        """Workers to whom nothing happens read everything that stands in the topic."""
        lives = [self.begin(instance, until_caught_up=True) for instance in instances]
        for life in lives:
            until(lambda life=life: life.is_over, "everything is caught up")
            assert life.process.exitcode == 0, (life.folder, life.error)


def play(
    schedule: Schedule,
    bootstrap: str,
    make_topic: Callable[..., str],
    folder: Path,
    canaries: Sequence[Canary],
) -> tuple[World, Verdict]:
    """Runs a schedule with traffic all the while, then lets everything catch up and judges."""
    world = World(bootstrap, make_topic(partitions=PARTITIONS), folder)
    check_start(world.config(0))
    try:
        with Traffic(bootstrap, world.topic, canaries, schedule.seed) as traffic:
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
