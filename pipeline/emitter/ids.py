"""Event and run ids: UUID version 7, ordered by time.

Source: RFC 9562, section 5.7; the fraction of the millisecond fills `rand_a` (section 6.2,
method 3), so that the ids of one process mostly sort in the order they were made.
"""

import os
import time
from collections.abc import Callable
from uuid import UUID

Clock = Callable[[], int]
"""Gives epoch microseconds."""

NewId = Callable[[], str]


def system_clock() -> int:
    """The machine's time in epoch microseconds."""
    return time.time_ns() // 1000


def uuid7(time_us: int, random: bytes) -> str:
    """The id made at `time_us` (epoch microseconds) from 8 random bytes."""
    milliseconds, microseconds = divmod(time_us, 1000)
    fraction = microseconds * 4096 // 1000
    bits = (milliseconds & (1 << 48) - 1) << 80 | 7 << 76 | fraction << 64
    bits |= 2 << 62 | int.from_bytes(random, "big") & (1 << 62) - 1
    return str(UUID(int=bits))


def id_source(clock: Clock = system_clock, random: Callable[[int], bytes] = os.urandom) -> NewId:
    """A source of ids; `random(n)` gives n bytes."""
    return lambda: uuid7(clock(), random(8))
