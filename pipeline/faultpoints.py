"""Named places between the steps of the commit protocol, where tests may stop the process.

Nothing happens at a fault point unless a test installed a function.
"""

from collections.abc import Callable
from typing import Final

POINTS: Final[tuple[str, ...]] = (
    "read.before",
    "read.after",
    "redact.before",
    "redact.after",
    "claim.before",
    "claim.after",
    "intent.before",
    "intent.after",
    "tmp-write.before",
    "tmp-write.after",
    "flush.before",
    "flush.after",
    "publish.before",
    "publish.after",
    "tidy.before",
    "tidy.after",
    "state.before",
    "state.after",
    "commit.before",
    "commit.after",
    "entry-link.before",
    "entry-link.after",
    "offset-commit.before",
    "offset-commit.after",
)
"""Every point an ingest passes, in the order of the protocol's steps.

`entry-link` stands inside the writing of each log entry: on the disk, not yet or just named.
"""

_act: Callable[[str], None] | None = None


def install(act: Callable[[str], None] | None) -> None:
    """From now on `act(name)` is called at every fault point; None removes it."""
    global _act
    _act = act


def at(name: str) -> None:
    """The fault point `name`, for example "publish.before"."""
    if _act is not None:
        _act(name)
