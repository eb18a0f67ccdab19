"""A call at an agent's boundary: what was asked, under which identity, and what came back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID, uuid5

Boundary = Literal["model", "tool", "effect", "clock", "random"]

OCCURRENCE: Final = "occurrence"
"""A field of the event that asks; it is no part of the request."""

_KEYS: Final = UUID("5f0c9a52-6d1e-5b84-8f37-c4e2a916b0d3")


class Kinds(NamedTuple):
    """The event kinds of a boundary: asked, answered; one kind if asking is answering."""

    asked: str
    answered: str


KINDS: Final[Mapping[Boundary, Kinds]] = {
    "model": Kinds("model.requested", "model.responded"),
    "tool": Kinds("tool.requested", "tool.responded"),
    "effect": Kinds("effect.intended", "effect.completed"),
    "clock": Kinds("clock.read", "clock.read"),
    "random": Kinds("random.drawn", "random.drawn"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call.  `key` is the idempotency key of an effect.

    `occurrence` counts the run's calls of this boundary and name from 0, so that equal calls are
    told apart.
    """

    boundary: Boundary
    name: str
    request: Mapping[str, Any]
    occurrence: int
    call_id: str
    key: str | None = None
    honours_key: bool = False

    @property
    def asked(self) -> Mapping[str, Any]:
        """The body of the event that asks."""
        return {**self.request, OCCURRENCE: self.occurrence}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave back: the body of the event that answers, `ok` or not."""

    body: Mapping[str, Any]
    is_ok: bool = True

    def value(self, call: Call) -> Any:
        """What the agent gets; raises CallFailed where the call failed."""
        if not self.is_ok:
            raise self.error(call)
        return self.body if call.boundary == "model" else self.body.get("content")

    def error(self, call: Call) -> "CallFailed":
        """What the agent gets where the call failed."""
        content = self.body.get("content")
        fields = content if isinstance(content, Mapping) else {"message": content}
        return CallFailed(call.name, str(fields.get("type", "")), str(fields.get("message", "")))


class CallFailed(Exception):
    """A call that failed, live or as recorded: agents catch this one error in every mode.

    `type` is the name of the original error, `message` its text (masked in a replay).  The text
    is no part of the exception's own message.
    """

    def __init__(self, name: str, type_: str, message: str) -> None:
        self.name, self.type, self.message = name, type_, message
        super().__init__(f"the call of {name} failed ({type_})")


def effect_key(root_run_id: str, name: str, occurrence: int) -> str:
    """The idempotency key of an effect: never from its arguments, never from the attempt."""
    return str(uuid5(_KEYS, f"{root_run_id}/{name}/{occurrence}"))


def failure(error: Exception) -> Answer:
    """The answer that a failed call leaves."""
    content = {"type": type(error).__name__, "message": str(error)}
    return Answer({"content": content, "status": "error"}, is_ok=False)
