"""Messages of a chat with tools, as several formats have them."""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipeline.formats.run import Run
from schemas import RunEvent

Message = Mapping[str, Any]


def is_message(value: Any) -> bool:
    """Whether `value` is a message whose calls and results can be told apart."""
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    if value["role"] == "tool" and _result_id(value) is None:
        return False
    calls = value.get("tool_calls") or []
    return isinstance(calls, list) and all(map(_is_call, calls))


class Chat:
    """Tells messages as events of `run`; calls of the tools `effects` are effects.

    Some recorded runs use a call id for several calls: the second use becomes `<id>-2`, so that a
    `call_id` pairs one request with one result; the message keeps what stood there.
    """

    def __init__(self, run: Run, effects: Collection[str] = ()) -> None:
        self._run, self._effects = run, effects
        self._uses: Counter[str] = Counter()
        self._open: dict[str, deque[tuple[str, str]]] = {}

    def events(self, message: Message) -> Iterator[RunEvent]:
        """The message, verbatim, and what it asks for."""
        given_id = _result_id(message)
        if message["role"] == "tool" and given_id is not None:
            waiting = self._open.get(given_id)
            call_id, asked = waiting.popleft() if waiting else (given_id, None)
            name = message.get("name") or message.get("function") or asked
            name = name if isinstance(name, str) else None
            kind = "effect.completed" if name in self._effects else "tool.responded"
            yield self._run.event(kind, message, name=name, call_id=call_id)
            return
        yield self._run.event("message", message)
        for call in message.get("tool_calls") or ():
            yield self._request(call, actor=message["role"])

    def _request(self, call: Mapping[str, Any], actor: str) -> RunEvent:
        name, arguments = _asked(call)
        call_id = self._opened(call["id"], name)
        body: dict[str, Any] = {"arguments": arguments}
        if name in self._effects:
            body = {"effect_id": call_id, "actor": actor} | body
        kind = "effect.intended" if name in self._effects else "tool.requested"
        return self._run.event(kind, body, name=name, call_id=call_id)

    def _opened(self, given_id: str, name: str) -> str:
        self._uses[given_id] += 1
        uses = self._uses[given_id]
        call_id = given_id if uses == 1 else f"{given_id}-{uses}"
        self._open.setdefault(given_id, deque()).append((call_id, name))
        return call_id


def _result_id(message: Message) -> str | None:
    """The id of the call that a message brings the result of."""
    several = message.get("tool_call_ids")
    first = several[0] if isinstance(several, list) and several else None
    given = message.get("tool_call_id") or first
    return given if isinstance(given, str) else None


def _is_call(call: Any) -> bool:
    if not (isinstance(call, dict) and isinstance(call.get("id"), str)):
        return False
    function = call.get("function")
    return isinstance(function.get("name") if isinstance(function, dict) else function, str)


def _asked(call: Mapping[str, Any]) -> tuple[str, Any]:
    """Name and arguments of a call, which stand within `function` or beside it."""
    function = call["function"]
    if isinstance(function, str):
        return function, call.get("arguments")
    return function["name"], function.get("arguments")
