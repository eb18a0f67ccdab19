"""Named places between the steps of the commit protocol, where tests may stop the process.

Nothing happens at a fault point unless a test installed a function.
"""

from collections.abc import Callable

_act: Callable[[str], None] | None = None


def install(act: Callable[[str], None] | None) -> None:
    """From now on `act(name)` is called at every fault point; None removes it."""
    global _act
    _act = act


def at(name: str) -> None:
    """The fault point `name`, for example "publish.before"."""
    if _act is not None:
        _act(name)
