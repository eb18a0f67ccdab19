"""What replaying and recording cost, on the worked example.

    python benchmarks/bench_replay.py [--runs 200]

Records runs of the example's support agent in memory, replays them with another prompt in one
isolated process (the regression; starting it is timed apart) and exactly, and times what recording
adds to a step of 50 ms: the same agent with a spool and a journal on disk, against the same
without, in turn.  Medians with quartiles.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pipeline.demo.support import agent
from pipeline.demo.support.client import Client
from pipeline.demo.support.figures import POLICY
from pipeline.demo.support.services import Desk, Probabilities
from pipeline.emitter import Recording, Spool, World
from pipeline.emitter.calls import Answer, Call
from pipeline.replay.batch import Batch
from pipeline.replay.record import recorded_run
from pipeline.replay.session import Kept, Rules
from redactors import KeyRing, load_ruleset
from schemas import Producer

STEP_S = 0.05
STEPS = 4
ROUNDS = 5
PAIRS = 40


class Direct(Client):
    """The services without HTTP; `pause_s` is what each model call takes."""

    def __init__(self, desk: Desk, pause_s: float = 0.0) -> None:
        super().__init__("")
        self._desk, self._pause_s = desk, pause_s

    def ask_model(self, request: Any) -> Any:
        time.sleep(self._pause_s)
        return self._desk.model(request)

    def look_up(self, tool: str, arguments: Any) -> Any:
        return getattr(self._desk, tool)(arguments)

    def send_email(self, arguments: Any, key: str) -> Any:
        return self._desk.mail(arguments, key)


class Unrecorded:
    """A mode that makes every call and records nothing."""

    def begin(self, call: Call, look_up: Any) -> Call:
        return call

    def end(self, call: Call, answer: Answer) -> Answer:
        return answer

    def note(self, kind: str, body: Any, name: str | None) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    count = parser.parse_args().runs
    keys, ruleset = KeyRing.generate(), load_ruleset()
    rules = Rules(ruleset, keys)
    recording = Recording.of(Producer("bench", "1"), keys, ruleset, matching=POLICY)
    desk = Desk(1, Probabilities(), honours_keys=True)
    Client.use(Direct(desk))
    runs = []
    for index in range(count):
        task, kept = desk.task(index), Kept()
        with recording.run(task, kept, run_id=f"run-{index}") as world:
            agent.v1(world, task)
        runs.append(recorded_run(kept.events))

    def model(call: Call) -> Answer:
        return Answer(desk.model(call.request))

    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    regress("v2", rules, lambda batch: [batch.hybrid(run, ("model",), model) for run in runs])
    regress("v1", rules, lambda batch: [batch.recorded(run) for run in runs])
    record(recording, desk, PAIRS)


def regress(version: str, rules: Rules, replay: Callable[[Batch], list[Any]]) -> None:
    """Starts a batch, replays, prints runs per second."""
    started_s = time.perf_counter()
    name = f"pipeline.demo.support.agent:{version}"
    with Batch(name, rules, POLICY, time.time_ns() // 1_000) as batch:
        ready_s = time.perf_counter()
        took_s = []
        for _ in range(ROUNDS):
            start_s = time.perf_counter()
            done = replay(batch)
            took_s.append(time.perf_counter() - start_s)
    outcomes = ", ".join(sorted({each.outcome for each in done}))
    low, middle, high = quartiles([len(done) / each_s for each_s in took_s])
    print(
        f"{len(done)} runs replayed with {version} ({outcomes}): {middle:.0f} runs/s "
        f"({low:.0f} to {high:.0f}, {ROUNDS} rounds), after {ready_s - started_s:.1f} s to start"
    )


def record(recording: Recording, desk: Desk, runs: int) -> None:
    """Prints what recording adds to a step, from pairs of runs with and without."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with_journal = replace(recording, journals=home / "open")
        Client.use(Direct(desk, STEP_S))
        plain_ms, added_ms, busy_ms = [], [], []
        for index in range(runs):
            task, spool = desk.task(index), Spool(home / f"{index}.spool")
            with Stopwatch() as plain:
                agent.v1(World(Unrecorded(), "plain"), task)
            run = with_journal.run(task, spool, run_id=f"run-{index}")
            with Stopwatch() as recorded, run as world:
                agent.v1(world, task)
            spool.close()
            plain_ms.append(plain.wall_ms)
            added_ms.append(recorded.wall_ms - plain.wall_ms)
            busy_ms.append(recorded.busy_ms - plain.busy_ms)
    step_ms = quartiles(plain_ms)[1]
    low, middle, high = quartiles(added_ms)
    print(
        f"a step of {step_ms:.1f} ms takes {middle:.2f} ms ({middle / step_ms:.1%}) longer when it "
        f"is recorded ({low:.2f} to {high:.2f}, {runs} pairs of runs of {STEPS} steps); the "
        f"agent's own thread is busy with it for {quartiles(busy_ms)[1]:.2f} ms"
    )


class Stopwatch:
    """Milliseconds a step: by the clock, and of this thread's work."""

    def __enter__(self) -> Self:
        self._start_s, self._busy_s = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.busy_ms = (time.thread_time() - self._busy_s) / STEPS * 1_000
        self.wall_ms = (time.perf_counter() - self._start_s) / STEPS * 1_000


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """The lower, the median, the upper."""
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


if __name__ == "__main__":
    main()
