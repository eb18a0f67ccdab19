"""Workers that die when they are told to: the product's worker with a fault planned into it.

Lives are forked from one server process that has imported everything and compiled the rules, so
each takes a second.
"""

import errno
import json
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psutil
from crash.schedules import Fault
from running import until

from pipeline import faultpoints
from pipeline.config import IngestConfig
from pipeline.lake import local
from pipeline.lake.store import Store, lake_errors

PATIENCE_S = 240.0
"""How long is waited for what must happen, on a machine that has much else to do."""

STRUCK = "struck"
"""The file that says that a fault came to pass."""


OVERTAKEN = (None, "lost-partition", "taken-over", "not-contiguous")
"""How a worker may end that slept while another went on."""

UNUSABLE = {"fill": ("no-space",), "lock": ("read-only",)}
"""How a worker ends that can no more write."""

KEYS = "CRASH_KEYS"
"""The environment variable that names the key ring of all lives; set before the first begins."""

_SERVER = get_context("forkserver")
_SERVER.set_forkserver_preload(["crash.preloaded"])


@dataclass
class Life:
    """One worker process; `said` what it told its supervisor."""

    process: ForkServerProcess
    folder: Path
    fault: Fault | None

    @property
    def is_stopped(self) -> bool:
        """Whether it was frozen and still is."""
        try:
            return bool(psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    @property
    def is_over(self) -> bool:
        return not self.process.is_alive()

    @property
    def is_struck(self) -> bool:
        """Whether the fault came to pass: who is to be frozen is."""
        is_to_freeze = self.fault is not None and self.fault.action == "freeze"
        return (self.folder / STRUCK).exists() and (
            not is_to_freeze or self.is_stopped or self.is_over
        )

    @property
    def said(self) -> list[dict[str, Any]]:
        stdout = self.folder / "stdout"
        if not stdout.exists():  # it was ended before it had begun
            return []
        lines = stdout.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"kind"')]

    @property
    def error(self) -> str | None:
        """The code of what it ended with; Beam tells the same again in its own words."""
        return next((line["code"] for line in self.said if line["kind"] == "error"), None)

    @property
    def may_end_by(self) -> tuple[str | None, ...]:
        """Errors with which it may end."""
        action = self.fault.action if self.fault else ""
        return (*OVERTAKEN, *UNUSABLE.get(action, ()))

    def end(self) -> None:
        """Asks it to end as a supervisor does, and waits until it has."""
        if self.process.is_alive():
            self.process.terminate()
        until(lambda: self.is_over, f"the worker in {self.folder.name} ends", PATIENCE_S)

    def thaw(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def begin(
    config: IngestConfig, folder: Path, fault: Fault | None = None, clock_s: float = 0.0
) -> Life:
    """Starts a worker that works in `folder` and whose clock is off by `clock_s`."""
    folder.mkdir(parents=True)
    process = _SERVER.Process(target=_live, args=(config, str(folder), fault, clock_s), daemon=True)
    process.start()
    return Life(process, folder, fault)


def _live(config: IngestConfig, folder: str, fault: Fault | None, clock_s: float) -> None:
    from pipeline import worker

    # The compiled rules alone are shared: compiling them takes longer than a life.
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ.update(HOME=folder, TMPDIR=folder, XDG_CACHE_HOME=cache)
    tempfile.tempdir = None
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    step_clock(clock_s)
    faultpoints.install(_Striking(fault) if fault else None)
    reading, writing = os.pipe()  # stays open: a worker ends when its supervisor is gone
    os.write(writing, f"{config.to_json()}\n".encode())
    sys.stdin = os.fdopen(reading)
    sys.exit(worker.main())


class _Striking:
    def __init__(self, fault: Fault) -> None:
        self._fault, self._left = fault, fault.occurrence

    def __call__(self, point: str) -> None:
        if point != self._fault.point:
            return
        self._left -= 1
        if self._left == 0:
            Path(STRUCK).touch()
            self._strike()

    def _strike(self) -> None:
        match self._fault.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "freeze":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "step":
                step_clock(self._fault.step_s)
            case "fill":
                local._write = _write_on_full_disk
            case "lock":
                local._write = local._make_folder = _refuse_writing  # type: ignore[assignment]
                local.os = _ReadOnly()  # type: ignore[attr-defined]
                Store.delete = _refuse_deleting  # type: ignore[method-assign]


def _write_on_full_disk(path: Path, data: bytes) -> None:
    path.write_bytes(data[: len(data) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _refuse_writing(*_: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def _refuse_deleting(store: Store, key: str) -> None:
    with lake_errors():
        _refuse_writing()


class _ReadOnly:
    """`os` where no name can be given."""

    link = staticmethod(_refuse_writing)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def step_clock(step_s: float) -> None:
    """From now on this process sees a clock that is off by `step_s` more than before."""
    now_ns = time.time_ns
    time.time_ns = lambda: now_ns() + int(step_s * 1e9)
