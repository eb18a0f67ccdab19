"""Runs an ingest as worker processes: starts, watches, restarts from the log, ends cleanly."""

import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.config import IngestConfig
from pipeline.errors import IngestError, PipelineError
from pipeline.registry.client import AWAY

MAX_FAILURES = 5
"""Restarts of one worker without a commit in between before the ingest gives up."""

STOP_GRACE_S = 10.0
"""How long workers may take to commit what is open once they are asked to end; then they are
killed, and what they had open is read again."""

OUTAGES = ("broker-away", AWAY)
"""Codes of errors that end by themselves."""

_ALL = -1
"""Stands for every worker, where they are told by their index."""


@dataclass(slots=True)
class Workers:
    """How many workers there should be by now, how many run, and which have begun to read."""

    wanted: int = 0
    running: int = 0
    reading: set[int] = field(default_factory=set)


@dataclass(slots=True)
class IngestReport:
    """What one ingest has done so far.

    `counts` has messages, events, dead_letters, refused, bytes, commits; `shadow` counts by rule
    what those in shadow would have masked; `ends` has the next offset by partition of the topic, or
    by file; `waiting` what a worker waits for (None: it works).  `ruleset` is the digest of the
    rules in force (None: each worker loads its own); `refused_rules` says why those that stand in
    their place now are not.  `starts` has where reading began, by partition, and `opened_us`
    when the last slice was opened (epoch microseconds), by partition or file.
    """

    counts: Counter[str] = field(default_factory=Counter)
    redactions: Counter[str] = field(default_factory=Counter)
    dead_letter_codes: Counter[str] = field(default_factory=Counter)
    shadow: Counter[str] = field(default_factory=Counter)
    gaps: list[tuple[int | str, int, int, str]] = field(default_factory=list)
    ends: dict[int | str, int] = field(default_factory=dict)
    waiting: str | None = None
    restarts: int = 0
    ruleset: str | None = None
    refused_rules: str | None = None
    workers: Workers = field(default_factory=Workers)
    starts: dict[int | str, int] = field(default_factory=dict)
    opened_us: dict[int | str, int] = field(default_factory=dict)

    def add(self, commit: dict[str, Any], where: int | str) -> None:
        """Adds the counts of one commit told by a worker, of the partition or file `where`."""
        self.counts.update(commit["counts"], commits=1)
        self.redactions.update(commit["redactions"])
        self.dead_letter_codes.update(commit["dead_letter_codes"])
        self.shadow.update(commit["shadow"])
        self.ends[where] = commit["end"]
        self.opened_us[where] = commit["now_us"]
        self.gaps.extend((where, *gap) for gap in commit["gaps"])
        self.waiting = None

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values for JSON."""
        return {
            "counts": dict(self.counts),
            "redactions": dict(self.redactions),
            "dead_letter_codes": dict(self.dead_letter_codes),
            "shadow": dict(self.shadow),
            "gaps": [
                {"partition": partition, "start": start, "end": end, "reason": reason}
                for partition, start, end, reason in self.gaps
            ],
            "ends": self.ends,
            "restarts": self.restarts,
            "ruleset": self.ruleset,
            "refused_rules": self.refused_rules,
        }


@dataclass(slots=True)
class _Worker:
    config: IngestConfig
    process: subprocess.Popen[str]
    failures: int = 0
    error: dict[str, Any] | None = None


class Supervisor:
    """Runs `workers` processes over the partitions of one topic until they are done.

    `on_progress` is called with the report after every message and at least twice a second.
    `request_stop` may be called from a signal handler.
    """

    def __init__(
        self,
        config: IngestConfig,
        workers: int,
        on_progress: Callable[[IngestReport], None],
        grace_s: float = STOP_GRACE_S,
    ) -> None:
        self._config, self._count, self._on_progress = config, workers, on_progress
        self._told: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        self._workers: dict[int, _Worker] = {}
        self._stopping = threading.Event()
        self._grace_s = grace_s
        self._ends_s = math.inf
        self.report = IngestReport(ruleset=config.ruleset)

    @property
    def _is_ending(self) -> bool:
        return self._ends_s < math.inf

    def request_stop(self) -> None:
        """Asks the workers to commit what is open and end."""
        self._stopping.set()

    def switch(self, ruleset: str) -> None:
        """Has the workers go on under the ruleset with this digest, which the lake keeps.

        May be called from any thread, as `refuse_rules`.
        """
        self._told.put((_ALL, {"kind": "switch", "ruleset": ruleset}))

    def refuse_rules(self, why: str) -> None:
        """Notes that other rules stand in the place of those in force, and cannot be used."""
        self._told.put((_ALL, {"kind": "refused-rules", "why": why}))

    def run(self) -> IngestReport:
        """Returns when every worker is done; raises the error that none of them could get over."""
        self.report.workers.wanted = self._count
        try:
            for index in range(self._count):
                self._start(index, failures=0)
            while self._workers and time.monotonic() < self._ends_s:
                self._step()
        finally:
            self._end_all()
        return self.report

    def _step(self) -> None:
        if self._stopping.is_set() and not self._is_ending:
            self._ends_s = time.monotonic() + self._grace_s
            for worker in self._workers.values():
                worker.process.terminate()
        try:
            index, message = self._told.get(timeout=0.5)
        except queue.Empty:
            self._on_progress(self.report)
            return
        if index == _ALL:
            assert message is not None
            self._take_up(message)
            self._on_progress(self.report)
            return
        worker = self._workers[index]
        if message is None:
            self._ended(index, worker)
        elif message["kind"] == "commit":
            worker.failures = 0
            self.report.add(message, message["topic" if self._config.files else "partition"])
        elif message["kind"] == "reading":
            self._reads(index, message["starts"])
        elif message["kind"] == "waiting":
            self.report.waiting = message["what"]
        elif message["kind"] == "error":
            worker.error = worker.error or message  # the first one is the cause
        self._on_progress(self.report)

    def _reads(self, index: int, starts: list[dict[str, int]]) -> None:
        self.report.workers.reading.add(index)
        if not self._config.files:
            self.report.starts.update((each["partition"], each["offset"]) for each in starts)

    def _take_up(self, message: dict[str, Any]) -> None:
        self.report.refused_rules = message.get("why")
        if "ruleset" not in message or message["ruleset"] == self._config.ruleset:
            return
        self.report.ruleset = message["ruleset"]
        self._config = replace(self._config, ruleset=message["ruleset"])
        for worker in self._workers.values():
            _write(worker.process, json.dumps({"ruleset": message["ruleset"]}))

    def _ended(self, index: int, worker: _Worker) -> None:
        del self._workers[index]
        workers = self.report.workers
        workers.running = len(self._workers)
        workers.reading.discard(index)
        if worker.process.wait() == 0:
            workers.wanted -= 1
            return
        error = worker.error or {
            "code": "worker-died",
            "message": f"worker {index} died with exit code {worker.process.returncode}",
            "hint": "",
            "final": False,
        }
        failures = worker.failures + 1
        if error["code"] in OUTAGES:
            # Nothing is wrong with the ingest: they may stay away as long as they like.
            failures = min(failures, MAX_FAILURES - 1)
        if self._is_ending and not error["final"]:
            return  # the log says what was done; the next ingest goes on from there
        if error["final"] or failures >= MAX_FAILURES:
            raise _as_exception(error)
        self.report.restarts += 1
        self.report.waiting = f"worker {index} to start again ({error['message']})"
        self._on_progress(self.report)
        if not self._stopping.wait(0.5 * 2**failures):
            self._start(index, failures)

    def _start(self, index: int, failures: int) -> None:
        config = self._config.share(index, self._count)
        process = subprocess.Popen(
            # -P: a module in the working directory must not pass for one of ours.
            [sys.executable, "-P", "-m", "pipeline.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Libraries log what they like, payload too: their words are for debugging only.
            stderr=None if "REDACTORY_DEBUG" in os.environ else subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        _write(process, config.to_json())
        self._workers[index] = _Worker(config, process, failures)
        self.report.workers.running = len(self._workers)
        threading.Thread(target=self._listen, args=(index, process), daemon=True).start()

    def _listen(self, index: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                self._told.put((index, json.loads(line)))
            except json.JSONDecodeError:
                continue  # a library printed to stdout: not for us, and not to be repeated
        self._told.put((index, None))

    def _end_all(self) -> None:
        for worker in self._workers.values():
            worker.process.terminate()
        ends_s = min(self._ends_s, time.monotonic() + self._grace_s)
        for worker in self._workers.values():
            try:
                worker.process.wait(max(0.1, ends_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()


def _write(process: subprocess.Popen[str], line: str) -> None:
    """Tells a worker; one that has ended is started again with what it missed."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(line + "\n")
        process.stdin.flush()


def _as_exception(error: dict[str, Any]) -> PipelineError:
    return IngestError(error["message"], code=error["code"], hint=error["hint"])
