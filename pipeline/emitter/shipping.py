"""Carries events from a spool to the broker, in the background, in order.

A process that dies between the broker's word and its own leaves events that are sent again: with
the same event ids, which readers count once.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Final, Protocol, Self

from pipeline.emitter.ids import id_source
from pipeline.emitter.spool import MAX_BYTES, SUFFIX, Spool, left_spools
from pipeline.errors import BrokerError, PipelineError
from schemas import RunEvent

RETRY_S: Final = 1.0
IDLE_S: Final = 0.05


class Carrier(Protocol):
    """An `Emitter`: takes events, and says when all are delivered or raises BrokerError."""

    def emit(self, event: RunEvent, /) -> object:
        """Takes one event."""

    def flush(self) -> None:
        """Waits for all of them."""


class Shipper:
    """A sink that never waits for the broker; a context manager.

    Events go to a spool in `folder`; a thread delivers them through `connect()`, tries again while
    the broker is away, and also takes over what processes that are gone have left in the folder.
    At the end it waits `grace_s` for the rest; what is left then waits for the next process.
    """

    def __init__(
        self,
        folder: Path,
        connect: Callable[[], Carrier],
        *,
        max_bytes: int = MAX_BYTES,
        grace_s: float = 5.0,
        name: str | None = None,
    ) -> None:
        self._folder, self._connect, self._grace_s = folder, connect, grace_s
        self._spool = Spool(folder / f"{name or id_source()()}{SUFFIX}", max_bytes)
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True, name="redactory-shipper")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(self._grace_s)
        if not self._thread.is_alive():
            self._spool.close()

    def emit(self, event: RunEvent) -> int:
        """Takes one event; raises SpoolFull."""
        return self._spool.emit(event)

    def sync(self) -> None:
        """Returns when what was taken is durable in the spool, or delivered."""
        self._spool.sync()

    def _run(self) -> None:
        route, has_taken_over = _Route(self._connect), False
        while True:
            is_last = self._over.is_set()
            try:
                if not has_taken_over:
                    route.deliver_left(self._folder)
                    has_taken_over = True
                route.deliver(self._spool)
            except BrokerError:
                if is_last:
                    return
                self._over.wait(RETRY_S)
                continue
            if is_last:
                return
            self._over.wait(IDLE_S)


def deliver_left(folder: Path, connect: Callable[[], Carrier]) -> int:
    """Delivers what processes that are gone have left in a folder; how many events.

    Raises BrokerError if the broker is away.
    """
    return _Route(connect).deliver_left(folder)


class _Route:
    """One connection, made when it is needed and again after it failed."""

    def __init__(self, connect: Callable[[], Carrier]) -> None:
        self._connect = connect
        self._carrier: Carrier | None = None

    def deliver_left(self, folder: Path) -> int:
        delivered = 0
        for path in left_spools(folder):
            try:
                spool = Spool(path)
            except PipelineError:
                continue  # its process lives
            try:
                delivered += self.deliver(spool)
            finally:
                spool.close()
        return delivered

    def deliver(self, spool: Spool) -> int:
        delivered = 0
        while not spool.clear():
            events, after = spool.read(spool.delivered)
            try:
                self._carrier = self._carrier or self._connect()
                for event in events:
                    self._carrier.emit(event)
                self._carrier.flush()
            except BrokerError:
                self._carrier = None
                raise
            spool.delivered, delivered = after, delivered + len(events)
        return delivered
