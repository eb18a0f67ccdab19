"""Writers and rewriters that can be stopped, killed or overtaken before any single store call.

Each actor is a thread of its own, but only the one that was told to step runs: a schedule, not the
machine, decides the order, so a schedule reproduces a failure.
"""

import threading
from collections.abc import Callable, Iterator

from obstore.store import MemoryStore

from pipeline.lake.store import Store, StoredObject


class Killed(BaseException):
    """Stands for `kill -9`: nothing after it runs."""


class Actor:
    """Work that pauses before each store call until it is told to go on."""

    def __init__(self, objects: MemoryStore, work: Callable[[Store], None]) -> None:
        self.error: BaseException | None = None
        self.is_done = False
        self._is_killed = False
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._work = work
        self._store = _PausingStore(objects, self._pause)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._paused.acquire()

    def step(self, calls: int) -> None:
        """Lets the next `calls` store calls happen, or what is left of them."""
        for _ in range(calls):
            if self.is_done:
                return
            self._go.release()
            self._paused.acquire()

    def finish(self) -> None:
        while not self.is_done:
            self.step(1)

    def kill(self) -> None:
        self._is_killed = True
        self.finish()

    def _pause(self) -> None:
        self._paused.release()
        self._go.acquire()
        if self._is_killed:
            raise Killed

    def _run(self) -> None:
        try:
            self._pause()
            self._work(self._store)
        except Killed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.is_done = True
            self._paused.release()


class _PausingStore(Store):
    def __init__(self, objects: MemoryStore, pause: Callable[[], None]) -> None:
        super().__init__(objects, "memory")
        self._pause = pause

    def get_or_none(self, key: str) -> bytes | None:
        self._pause()
        return super().get_or_none(key)

    def exists(self, key: str) -> bool:
        self._pause()
        return super().exists(key)

    def walk(self, folder: str, *, after: str | None = None) -> Iterator[StoredObject]:
        self._pause()
        return super().walk(folder, after=after)

    def delete(self, key: str) -> None:
        self._pause()
        super().delete(key)

    def put_tmp(self, key: str, data: bytes) -> None:
        self._pause()
        super().put_tmp(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self._pause()
        return super().put_if_absent(key, data)
