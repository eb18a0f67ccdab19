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
outside (`EFFECTS`) are `effect.intended` and `effect.completed` instead.  There is no repository to
speak of, and what else the format has no place for is declared missing.  It has no times:
`occurred_at` and `captured_at` are both the time of the import.  Ids are derived from the content
of the file.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.formats.base import Format, Source, derived_id, parse_json
from pipeline.formats.chat import Chat, is_message
from pipeline.formats.run import Run
from schemas import RunEvent

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
_LACKING: Final = ("policy", "environment", "integrations", "models", "outputs")


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
        run = Run(derived_id("tau-bench", digest, index), "tau-bench", source.captured_at_us)
        yield from _events(trajectory, run)


def _check(source: Source, trajectory: Any, index: int) -> None:
    if not (
        isinstance(trajectory, dict)
        and isinstance(trajectory.get("info", {}), dict)
        and isinstance(trajectory.get("traj"), list)
        and all(map(is_message, trajectory["traj"]))
    ):
        source.fail(f"entry {index} of the list is not a trajectory of chat messages")


def _events(trajectory: Mapping[str, Any], run: Run) -> Iterator[RunEvent]:
    info = dict(trajectory.get("info", {}))
    identity = {key: trajectory[key] for key in trajectory if key not in _ELSEWHERE}
    yield run.event(
        "run.started", {"trigger": {"type": "import", "format": "tau-bench"}} | identity
    )
    if "task" in info:
        yield run.event("task.captured", {"task": info.pop("task")})
    yield from run.declare("not_applicable", "code")
    yield from run.declare("missing", *_LACKING)
    chat = Chat(run, EFFECTS)
    for message in trajectory["traj"]:
        yield from chat.events(message)
    outcome = {"reward": trajectory["reward"]} if "reward" in trajectory else {}
    yield run.event("run.finished", {"status": "completed", **outcome, "info": info})


FORMAT: Final = Format("tau-bench", sniff, read)
