"""A seeded stream of agent events for the ingest benchmarks: mostly clean, some with findings.

Runs of forty events, one after the other; the last of each says that the run has ended.
"""

import json
import random
from collections.abc import Iterator

from schemas import Producer, RunEvent

WORDS = [
    "agent",
    "build",
    "cache",
    "check",
    "client",
    "commit",
    "config",
    "deploy",
    "error",
    "event",
    "file",
    "fix",
    "index",
    "job",
    "line",
    "list",
    "log",
    "merge",
    "module",
    "name",
    "node",
    "order",
    "output",
    "parse",
    "path",
    "plan",
    "queue",
    "read",
    "release",
    "result",
    "retry",
    "run",
    "schema",
    "server",
    "state",
    "step",
    "table",
    "task",
    "test",
    "token_count",
    "tool",
    "trace",
    "type",
    "update",
    "value",
    "worker",
]  # a list of forty words reads worse as forty strings


EVENTS = 40
"""Of a run."""


def events(count: int, seed: int, now_us: int, size: int = 900) -> Iterator[RunEvent]:
    """`count` events of about `size` bytes each; one in eight has a finding."""
    rng = random.Random(seed)
    for index in range(count):
        run, sequence = f"run-{index // EVENTS:07}", index % EVENTS
        text = " ".join(rng.choices(WORDS, k=size // 7))
        body: dict[str, object] = {"role": "assistant", "content": text, "tokens": index % 997}
        match rng.randrange(16):
            case 0:
                body["email"] = f"person{index}@example.com"
            case 1:
                body["headers"] = {"Authorization": "Bearer " + rng.randbytes(20).hex()}
        is_last = sequence == EVENTS - 1
        if is_last:
            body["status"] = "succeeded"
        yield RunEvent(
            event_id=f"{run}-{sequence}",
            run_id=run,
            sequence=sequence,
            occurred_at=now_us,
            kind="run.finished" if is_last else "message",
            name="assistant",
            body=json.dumps(body),
            producer=Producer("bench", "1"),
        )
