"""The one way to ask a worker process to end: everything open is committed first."""

import signal
import threading
from types import FrameType

STOP = threading.Event()
"""Set: readers hand out their open slices and end."""


def stop_on_signals() -> None:
    """Ends this process cleanly on SIGINT and SIGTERM."""

    def _set(signum: int, frame: FrameType | None) -> None:
        STOP.set()

    signal.signal(signal.SIGINT, _set)
    signal.signal(signal.SIGTERM, _set)
