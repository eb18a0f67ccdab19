"""`tau-bench`: a JSON list of trajectories, each of which becomes one run.

A trajectory is `{task_id, trial, reward, info, traj}`; `traj` is a list of chat messages.

| in the file | event | body |
| --- | --- | --- |
| the trajectory but for `traj`, `reward`, `info` | `run.started` | its fields, and `trigger` |
| `info.task` | `task.captured` | `{"task": …}` |
| a message without `role: tool` | `message` | the message, verbatim |
| each of its `tool_calls` | `tool.requested` | `{"arguments": …}`, verbatim |
| a message with `role: tool` | `tool.responded` | the message, verbatim |
| `reward`, the rest of `info` | `run.finished` | `{"status", "reward", "info"}` |

So each message is the body of exactly one event, in order.  Calls of tools that change something
outside (`EFFECTS`) are `effect.intended` and `effect.completed` instead.  Some recorded runs use a
call id for several calls: the second use becomes `<id>-2`, so that a `call_id` pairs one request
with one result; the message keeps what stood there.  The format has no times: `occurred_at` and
`captured_at` are both the time of the import.  Ids are derived from the content of the file.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.formats.base import Format, Source, derived_id, json_text, parse_json
from schemas import Producer, RunEvent

EFFECTS: Final = frozenset(
    {
        # airline
        "book_reservation",
        "cancel_reservation",
        "send_certificate",
        "transfer_to_human_agents",
        "update_reservation_baggages",
        "update_reservation_flights",
        "update_reservation_passengers",
        # retail
        "cancel_pending_order",
        "exchange_delivered_order_items",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
    }
)

_ELSEWHERE: Final = ("traj", "reward", "info")


def sniff(head: bytes) -> bool:
    """Whether a list of objects begins, with task ids among their fields."""
    start = head.lstrip()
    return start.startswith(b"[") and start[1:].lstrip().startswith(b"{") and b'"task_id"' in head


def read(source: Source) -> Iterator[RunEvent]:
    """One run for each trajectory of the list."""
    content = source.whole()
    trajectories = parse_json(source, content)
    if not isinstance(trajectories, list):
        source.fail("this is not a list of trajectories")
    digest = hashlib.sha256(content).hexdigest()
    for index, trajectory in enumerate(trajectories):
        _check(source, trajectory, index)
        yield from _Run(derived_id("tau-bench", digest, index), source).events(trajectory)


def _check(source: Source, trajectory: Any, index: int) -> None:
    if not (
        isinstance(trajectory, dict)
        and isinstance(trajectory.get("info", {}), dict)
        and isinstance(trajectory.get("traj"), list)
        and all(_is_message(message) for message in trajectory["traj"])
    ):
        source.fail(f"entry {index} of the list is not a trajectory of chat messages")


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        return False
    return all(
        isinstance(call, dict)
        and isinstance(call.get("id"), str)
        and isinstance(call.get("function"), dict)
        and isinstance(call["function"].get("name"), str)
        for call in message.get("tool_calls") or ()
    )


class _Run:
    """The events of one trajectory, numbered as they come."""

    def __init__(self, run_id: str, source: Source) -> None:
        self._run_id, self._at_us = run_id, source.captured_at_us
        self._sequence = 0
        self._uses: Counter[str] = Counter()
        self._open: dict[str, deque[str]] = {}

    def events(self, trajectory: Mapping[str, Any]) -> Iterator[RunEvent]:
        info = dict(trajectory.get("info", {}))
        identity = {key: trajectory[key] for key in trajectory if key not in _ELSEWHERE}
        trigger = {"trigger": {"type": "import", "format": "tau-bench"}}
        yield self._event("run.started", trigger | identity)
        if "task" in info:
            yield self._event("task.captured", {"task": info.pop("task")})
        for message in trajectory["traj"]:
            yield from self._message(message)
        outcome = {"reward": trajectory["reward"]} if "reward" in trajectory else {}
        yield self._event("run.finished", {"status": "completed", **outcome, "info": info})

    def _message(self, message: Mapping[str, Any]) -> Iterator[RunEvent]:
        if message["role"] == "tool":
            name = message.get("name")
            kind = "effect.completed" if name in EFFECTS else "tool.responded"
            call_id = self._close_call(message["tool_call_id"])
            yield self._event(kind, message, name=name, call_id=call_id)
            return
        yield self._event("message", message)
        for call in message.get("tool_calls") or ():
            name, arguments = call["function"]["name"], call["function"].get("arguments")
            call_id = self._open_call(call["id"])
            if name in EFFECTS:
                body = {"effect_id": call_id, "actor": message["role"], "arguments": arguments}
                yield self._event("effect.intended", body, name=name, call_id=call_id)
            else:
                body = {"arguments": arguments}
                yield self._event("tool.requested", body, name=name, call_id=call_id)

    def _open_call(self, given_id: str) -> str:
        self._uses[given_id] += 1
        uses = self._uses[given_id]
        call_id = given_id if uses == 1 else f"{given_id}-{uses}"
        self._open.setdefault(given_id, deque()).append(call_id)
        return call_id

    def _close_call(self, given_id: str) -> str:
        waiting = self._open.get(given_id)
        return waiting.popleft() if waiting else given_id

    def _event(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        name: str | None = None,
        call_id: str | None = None,
    ) -> RunEvent:
        sequence, self._sequence = self._sequence, self._sequence + 1
        return RunEvent(
            event_id=derived_id(self._run_id, sequence),
            run_id=self._run_id,
            sequence=sequence,
            occurred_at=self._at_us,
            captured_at=self._at_us,
            kind=kind,
            body=json_text(body),
            name=name,
            call_id=call_id,
            producer=Producer("tau-bench"),
        )


FORMAT: Final = Format("tau-bench", sniff, read)
