"""The broker of a schedule, and what befalls it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from pipeline import broker

CUT_S = 11.0
"""How long nobody gets an answer: longer than the lives' clients wait for one."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """A broker that can be killed and started again; `folder` has its data."""

    folder: Path
    bootstrap: str

    def kill(self) -> None:
        """`kill -9`, and a new start with the same data."""
        os.kill(self._pid(), signal.SIGKILL)
        broker.start(self.folder, int(self.bootstrap.rpartition(":")[2]), lambda line: None)

    def cut_off(self) -> None:
        """Lets every client wait in vain for a while."""
        pid = self._pid()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(CUT_S)
        os.kill(pid, signal.SIGCONT)

    def _pid(self) -> int:
        running = broker.find(self.folder)
        assert running is not None
        return running.pid
