"""A bounded local spool: events that are already masked wait here for their broker.

An agent never waits for the broker: every event is appended to a file of its own (0600), and a
thread of `Shipper` carries it on.  What is appended survives the process; after `sync` it survives
the machine.  A full spool raises, and drops nothing.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Final

from pipeline.errors import PipelineError
from schemas import RunEvent, decode, encode_json

MAX_BYTES: Final = 64 << 20
SUFFIX: Final = ".spool"


class SpoolFull(PipelineError):
    """The spool holds as much as it may; the event was not taken."""


class Spool:
    """One append-only file of JSON lines; locked, so that nobody else ships it meanwhile."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path, self._max_bytes = path, max_bytes
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = Lock()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise PipelineError(
                f"{path} is in use by another process", code="spool-in-use"
            ) from None
        self._size = self._whole_size()
        self.delivered = 0
        """Offset up to which the broker has the events."""

    def emit(self, event: RunEvent) -> int:
        """Appends one event; its size in bytes.  Raises SpoolFull, and EncodeError."""
        line = encode_json(event) + b"\n"
        with self._lock:
            if self._size + len(line) > self._max_bytes:
                raise SpoolFull(
                    f"the spool {self.path} is full",
                    code="spool-full",
                    hint="bring the broker back, or allow a larger spool",
                )
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
            self._size += len(line)
        return len(line)

    def sync(self) -> None:
        """Returns when the disk has what was appended."""
        os.fdatasync(self._file)

    def read(self, start: int, size_bytes: int = 1 << 20) -> tuple[list[RunEvent], int]:
        """Whole events from offset `start` on, and the offset after them."""
        data = os.pread(self._file, size_bytes, start)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == size_bytes:
            return self.read(start, 2 * size_bytes)
        return [decode(line) for line in data[:end].splitlines()], start + end

    def clear(self) -> bool:
        """Empties the file if all of it is delivered; False if it is not."""
        with self._lock:
            if self.delivered != self._size:
                return False
            os.ftruncate(self._file, 0)
            self._size = self.delivered = 0
            return True

    def close(self) -> None:
        """Closes the file, and removes it if it is empty."""
        with self._lock:
            if not self._size:
                self.path.unlink(missing_ok=True)
            os.close(self._file)

    def _whole_size(self) -> int:
        """Cuts off a line that a dying process left unfinished."""
        size = os.fstat(self._file).st_size
        data = os.pread(self._file, size, 0)
        whole = data.rfind(b"\n") + 1
        os.ftruncate(self._file, whole)
        return whole


def left_spools(folder: Path) -> Iterator[Path]:
    """The spools in a folder, oldest first."""
    yield from sorted(folder.glob(f"*{SUFFIX}"))


def read_spool(path: Path) -> list[RunEvent]:
    """The whole events in a spool, also of one that is in use."""
    data = path.read_bytes()
    return [decode(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
