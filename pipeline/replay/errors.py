"""Why a replay stops.  Values in messages are masked.

Stopped               a replay cannot go on: names step, boundary and call
├── Missing           there is no recorded answer to this call
├── Diverged          exit code 1: the call, or something said, is not what was recorded
├── Withheld          the value that is needed was masked, and is not to be had any more
├── Expired           the recorded answer is past its deadline
├── Denied            exit code 3: the agent reached past its boundary (socket, process, file)
├── Unauthorised      a live call without an authority that covers it
└── UnknownEffect     nobody knows whether an effect took place
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pipeline.errors import PipelineError

VALUE_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run: the step (model calls count, from 0), the boundary, the call's name."""

    step: int
    boundary: str
    name: str

    def __str__(self) -> str:
        about = f" {self.name}" if self.name and self.name != self.boundary else ""
        return f"step {self.step}, {self.boundary}{about}"


class Stopped(PipelineError):
    """`place` says where, `path` is a JSON pointer into the request ("" is all of it)."""

    reason: ClassVar[str] = "stopped"

    def __init__(self, place: Place, what: str, *, hint: str = "") -> None:
        self.place, self.what = place, what
        super().__init__(f"{place}: {what}", code=self.reason, hint=hint)

    def as_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "reason": self.reason,
            "step": self.place.step,
            "boundary": self.place.boundary,
            "name": self.place.name,
            "message": str(self),
        }


class Missing(Stopped):
    reason: ClassVar[str] = "missing"


class Diverged(Stopped):
    reason: ClassVar[str] = "diverged"
    exit_code: ClassVar[int] = 1

    def __init__(self, place: Place, path: str, recorded: Any, asked: Any) -> None:
        self.path, self.recorded, self.asked = path, recorded, asked
        where = f"at {path} " if path else ""
        super().__init__(place, f"{where}recorded {shown(recorded)}, asked {shown(asked)}")

    def as_dict(self) -> dict[str, Any]:
        seen = {"path": self.path, "recorded": self.recorded, "asked": self.asked}
        return super().as_dict() | seen


class Withheld(Stopped):
    reason: ClassVar[str] = "withheld"


class Expired(Stopped):
    reason: ClassVar[str] = "expired"


class Denied(Stopped):
    reason: ClassVar[str] = "denied"


class Unauthorised(Stopped):
    reason: ClassVar[str] = "unauthorised"


class UnknownEffect(Stopped):
    reason: ClassVar[str] = "unknown-effect"


def shown(value: Any) -> str:
    """A masked value in few words."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}…"
