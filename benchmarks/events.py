"""A seeded stream of agent events for the ingest benchmarks: mostly clean, some with findings."""

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


def events(count: int, seed: int, now_us: int, size: int = 900) -> Iterator[RunEvent]:
    """`count` events of about `size` bytes each; one in eight has a finding."""
    rng = random.Random(seed)
    for index in range(count):
        run = f"run-{index // 40:07}"
        text = " ".join(rng.choices(WORDS, k=size // 7))
        body: dict[str, object] = {"role": "assistant", "content": text, "tokens": index % 997}
        match rng.randrange(16):
            case 0:
                body["email"] = f"person{index}@example.com"
            case 1:
                body["headers"] = {"Authorization": "Bearer " + rng.randbytes(20).hex()}
        yield RunEvent(
            event_id=f"{run}-{index % 40}",
            run_id=run,
            sequence=index % 40,
            occurred_at=now_us,
            kind="message",
            name="assistant",
            body=json.dumps(body),
            producer=Producer("bench", "1"),
        )
