"""Who may make a live call in a replay: a grant for each, scoped, current, and given for it.

What was approved when a run was recorded grants nothing later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Self

from pipeline.emitter.calls import Call
from pipeline.errors import UsageError
from pipeline.replay.errors import Place, Unauthorised

MAX_S: Final = 24 * 3600
"""How long a grant may hold: one that holds for longer is not current."""

_FORM: Final = "write BOUNDARY:NAME, and for an effect BOUNDARY:NAME=OPERATION"


@dataclass(frozen=True, slots=True)
class Grant:
    """Lets calls of a boundary whose names fit a pattern be made until `until_us`.

    An effect needs `operation`, the idempotency key of the very effect.  `approval` refers to who
    allowed it; one that the recorded run was given before is refused.
    """

    boundary: str
    name: str
    until_us: int
    operation: str = ""
    approval: str = ""

    @classmethod
    def parse(cls, text: str, until_us: int) -> Self:
        """`tool:get_order`, `model:*`, `effect:send_email=<operation>`; raises UsageError."""
        asked, _, operation = text.partition("=")
        boundary, _, name = asked.partition(":")
        if boundary not in ("model", "tool", "effect") or not name:
            raise UsageError(f"{text} is no grant", code="grant", hint=_FORM)
        if boundary == "effect" and not operation:
            raise UsageError(
                f"{text} names no operation, which an effect needs", code="grant", hint=_FORM
            )
        return cls(boundary, name, until_us, operation)


class Authority:
    """The grants of one replay, given at `now_us` (epoch microseconds)."""

    def __init__(
        self, grants: Iterable[Grant] = (), *, now_us: int, spent: frozenset[str] = frozenset()
    ) -> None:
        self._grants, self._spent = tuple(grants), spent
        for grant in self._grants:
            if grant.until_us - now_us > MAX_S * 1_000_000:
                raise UsageError(
                    "a grant for more than a day is not current", code="grant", hint=_FORM
                )

    def check(self, call: Call, place: Place, now_us: int, approval: str | None = None) -> None:
        """Raises Unauthorised unless a grant covers the call.

        `approval` is what the agent itself refers to.
        """
        if approval and approval in self._spent:
            raise Unauthorised(
                place, "an approval of the recorded run is no authority now", hint=_hint(call)
            )
        found = [grant for grant in self._grants if _covers(grant, call)]
        if not found:
            raise Unauthorised(place, "no authority covers this call", hint=_hint(call))
        if all(grant.approval and grant.approval in self._spent for grant in found):
            raise Unauthorised(
                place, "an approval of the recorded run is no authority now", hint=_hint(call)
            )
        if all(grant.until_us <= now_us for grant in found):
            raise Unauthorised(place, "the authority for this call has run out", hint=_hint(call))


def _covers(grant: Grant, call: Call) -> bool:
    if grant.boundary != call.boundary or not fnmatchcase(call.name, grant.name):
        return False
    return call.boundary != "effect" or grant.operation == call.key


def _hint(call: Call) -> str:
    wanted = f"{call.boundary}:{call.name}" + (f"={call.key}" if call.key else "")
    return f"--allow {wanted} lets it be made"
