"""What replaying and recording cost, on the worked example.

    python benchmarks/bench_replay.py [--runs 200]

Records runs of the example's support agent in memory, replays them with another prompt in one
isolated process (the regression; starting it is timed apart) and exactly, and times what recording
adds to a step of 50 ms: the same agent with a spool on disk, against the same without.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    record(recording, desk)


def regress(version: str, rules: Rules, replay: Callable[[Batch], list[Any]]) -> None:
    """Starts a batch, replays, prints runs per second."""
    started_s = time.perf_counter()
    name = f"pipeline.demo.support.agent:{version}"
    with Batch(name, rules, POLICY, time.time_ns() // 1_000) as batch:
        ready_s = time.perf_counter()
        done = replay(batch)
        took_s = time.perf_counter() - ready_s
    outcomes = {each.outcome for each in done}
    print(
        f"{len(done)} runs replayed with {version} ({', '.join(sorted(outcomes))}): "
        f"{len(done) / took_s:.0f} runs/s, after {ready_s - started_s:.1f} s to start"
    )


def record(recording: Recording, desk: Desk, runs: int = 20) -> None:
    """Prints what recording adds to a step."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with_journal = Recording(
            recording.redactor, recording.keys, recording.producer, journals=home / "open"
        )
        Client.use(Direct(desk, STEP_S))
        plain_s, recorded_s = [], []
        for index in range(runs):
            task = desk.task(index)
            start_s = time.perf_counter()
            agent.v1(World(Unrecorded(), "plain"), task)
            middle_s = time.perf_counter()
            spool = Spool(home / f"{index}.spool")
            with with_journal.run(task, spool, run_id=f"run-{index}") as world:
                agent.v1(world, task)
            plain_s.append(middle_s - start_s)
            recorded_s.append(time.perf_counter() - middle_s)
    plain, recorded = sorted(plain_s)[runs // 2], sorted(recorded_s)[runs // 2]
    added_ms = (recorded - plain) / STEPS * 1_000
    print(
        f"a step of {plain / STEPS * 1_000:.1f} ms takes {added_ms:.2f} ms longer when it is "
        f"recorded ({added_ms / (STEP_S * 1_000):.1%}), medians of {runs} runs of {STEPS} steps"
    )


if __name__ == "__main__":
    main()
