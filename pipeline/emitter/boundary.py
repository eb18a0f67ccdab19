"""The agent's boundary: the one object through which an agent meets the world.

    world.model(name, request, call)      world.tool(name, arguments, call)
    world.effect(name, arguments, call)   world.now()   world.random()
    world.message(…)  world.artifact(…)  world.decision(…)  world.intervention(…)

Live, every call is recorded: what was asked before it is made, what came back after.  In a replay
the same agent code gets what was recorded, and the functions it passes are not called.  What a
call does is the mode's business; `World` and `AsyncWorld` differ in how they wait, and in nothing
else.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any, Final, Protocol

from pipeline.emitter.calls import Answer, Boundary, Call, effect_key, failure

Json = Any
LookUp = Callable[[str], Json | None]
"""Asks a service by idempotency key what became of an effect; None: it never took place."""


_SOURCE: Final = SystemRandom()


class Mode(Protocol):
    """What stands behind the boundary: live, or a way of replaying."""

    def begin(self, call: Call, look_up: LookUp | None) -> Answer | Call:
        """The answer, or the call that is to be made; raises where it may not be."""

    def end(self, call: Call, answer: Answer) -> Answer:
        """Takes what a call gave that was made; gives what the agent is to see."""

    def note(self, kind: str, body: Mapping[str, Json], name: str | None) -> None:
        """Something that the agent says, makes or decides."""


class _Boundary:
    """What both worlds share: identities of calls, and notes."""

    def __init__(
        self,
        mode: Mode,
        root_run_id: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        draw: Callable[[], float] = _SOURCE.random,
    ) -> None:
        self.mode, self._root = mode, root_run_id
        self._clock, self._draw = clock, draw
        self._seen: Counter[tuple[str, str]] = Counter()
        self._calls = 0

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromisoformat(
            self._at_once("clock", lambda: self._clock().isoformat(timespec="microseconds"))
        )

    def random(self) -> float:
        """A number in [0, 1)."""
        # In hexadecimal, so that no rule takes the digits for a card's.
        return float.fromhex(self._at_once("random", lambda: self._draw().hex()))

    def message(self, role: str, content: Json) -> None:
        """Something was said."""
        self.mode.note("message", {"role": role, "content": content}, None)

    def artifact(self, name: str, **fields: Json) -> None:
        """The run leaves something behind (`schemas.kinds.ArtifactProduced`)."""
        self.mode.note("artifact.produced", fields, name)

    def decision(self, decision: str, **fields: Json) -> None:
        """Something was decided (`schemas.kinds.DecisionMade`)."""
        self.mode.note("decision.made", {"decision": decision, **fields}, None)

    def intervention(self, actor: str, action: str, reason: str) -> None:
        """Somebody stepped in from outside the agent."""
        body = {"actor": actor, "action": action, "reason": reason}
        self.mode.note("intervention", body, None)

    def _at_once(self, boundary: Boundary, read: Callable[[], str]) -> str:
        call = self.call(boundary, boundary, {})
        begun = self.mode.begin(call, None)
        if isinstance(begun, Call):
            begun = self.mode.end(begun, Answer({"content": read()}))
        return str(begun.value(call))

    def call(
        self, boundary: Boundary, name: str, request: Mapping[str, Json], honours_key: bool = False
    ) -> Call:
        """The next call, with its identity; for those who make calls by `mode` themselves."""
        occurrence = self._seen[boundary, name]
        self._seen[boundary, name] += 1
        self._calls += 1
        key = effect_key(self._root, name, occurrence) if boundary == "effect" else None
        call_id = f"call-{self._calls}"
        return Call(boundary, name, request, occurrence, call_id, key, honours_key)

    def _effect(
        self,
        name: str,
        arguments: Mapping[str, Json],
        actor: str,
        approval: str | None,
        capability: str | None,
        honours_key: bool,
    ) -> Call:
        body = {
            "effect_id": effect_key(self._root, name, self._seen["effect", name]),
            "actor": actor,
            "approval": approval,
            "capability": capability,
            "arguments": arguments,
        }
        return self.call("effect", name, body, honours_key)


class World(_Boundary):
    """The boundary of an agent that waits for each call."""

    def model(
        self, name: str, request: Mapping[str, Json], call: Callable[[Any], Mapping[str, Json]]
    ) -> Mapping[str, Json]:
        """Asks a model; `request` and what `call(request)` gives have the fields of
        `schemas.kinds.ModelRequested` and `ModelResponded`, and any others."""
        asked = self.call("model", name, request)
        answer: Mapping[str, Json] = self._made(asked, lambda made: call(made.request))
        return answer

    def tool(self, name: str, arguments: Json, call: Callable[[Any], Json]) -> Json:
        """Calls a tool that changes nothing outside; `call(arguments)` gives JSON."""
        asked = self.call("tool", name, {"arguments": arguments})
        return self._made(asked, lambda made: call(made.request["arguments"]))

    def effect(
        self,
        name: str,
        arguments: Mapping[str, Json],
        call: Callable[[Any, str], Json],
        *,
        actor: str = "agent",
        approval: str | None = None,
        capability: str | None = None,
        honours_key: bool = False,
        look_up: LookUp | None = None,
    ) -> Json:
        """Changes something outside by `call(arguments, key)`, once its intent is durable.

        `honours_key`: the service takes a second call under the same key for the first.
        `look_up` tells what became of a call that nobody heard of any more.
        """
        asked = self._effect(name, arguments, actor, approval, capability, honours_key)
        return self._made(
            asked, lambda made: call(made.request["arguments"], made.key or ""), look_up
        )

    def _made(
        self, asked: Call, make: Callable[[Call], Json], look_up: LookUp | None = None
    ) -> Json:
        begun = self.mode.begin(asked, look_up)
        if isinstance(begun, Answer):
            return begun.value(asked)
        try:
            answer = _answer(asked, make(begun))
        except Exception as error:
            raise self.mode.end(begun, failure(error)).error(asked) from error
        return self.mode.end(begun, answer).value(asked)


class AsyncWorld(_Boundary):
    """The boundary of an agent whose calls are awaited; calls may overlap."""

    async def model(
        self,
        name: str,
        request: Mapping[str, Json],
        call: Callable[[Any], Awaitable[Mapping[str, Json]]],
    ) -> Mapping[str, Json]:
        """As `World.model`."""
        asked = self.call("model", name, request)
        answer: Mapping[str, Json] = await self._made(asked, lambda made: call(made.request))
        return answer

    async def tool(
        self, name: str, arguments: Json, call: Callable[[Any], Awaitable[Json]]
    ) -> Json:
        """As `World.tool`."""
        asked = self.call("tool", name, {"arguments": arguments})
        return await self._made(asked, lambda made: call(made.request["arguments"]))

    async def effect(
        self,
        name: str,
        arguments: Mapping[str, Json],
        call: Callable[[Any, str], Awaitable[Json]],
        *,
        actor: str = "agent",
        approval: str | None = None,
        capability: str | None = None,
        honours_key: bool = False,
        look_up: LookUp | None = None,
    ) -> Json:
        """As `World.effect`."""
        asked = self._effect(name, arguments, actor, approval, capability, honours_key)
        return await self._made(
            asked, lambda made: call(made.request["arguments"], made.key or ""), look_up
        )

    async def _made(
        self, asked: Call, make: Callable[[Call], Awaitable[Json]], look_up: LookUp | None = None
    ) -> Json:
        begun = self.mode.begin(asked, look_up)
        if isinstance(begun, Answer):
            return begun.value(asked)
        try:
            answer = _answer(asked, await make(begun))
        except Exception as error:
            raise self.mode.end(begun, failure(error)).error(asked) from error
        return self.mode.end(begun, answer).value(asked)


def _answer(call: Call, given: Json) -> Answer:
    return Answer(given if call.boundary == "model" else {"content": given, "status": "ok"})
