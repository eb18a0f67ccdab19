"""Messages that a model streams in pieces, and what slices make of them."""

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from pipeline.building import SliceBuilder
from pipeline.masking import Coordinates, Masker
from pipeline.retention.policy import load_policy
from pipeline.slices import MaskedSlice, Message
from pipeline.state.memories import Memories
from redactors import KeyRing, Redactor, load_ruleset
from schemas import RunEvent, encode

NOW_US = 1_790_000_000_000_000
KEYS = KeyRing("k1", {"k1": bytes(range(32))})
AT = Coordinates("runs", 0)


@cache
def masker() -> Masker:
    return Masker(Redactor(load_ruleset(), KEYS), load_policy())


def event(sequence: int, kind: str, body: object, **fields: Any) -> RunEvent:
    return RunEvent(
        **{
            "event_id": f"event-{sequence}",
            "run_id": "run-1",
            "sequence": sequence,
            "occurred_at": NOW_US,
            "kind": kind,
            "call_id": "c1",
            "body": json.dumps(body),
            **fields,
        }
    )


def chunk(text: str) -> dict[str, object]:
    """A piece as clients of OpenAI's chat completions get it."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"id": "c-1", "object": "chat.completion.chunk", "choices": [choice]}


def stream(pieces: Sequence[str], body_of: Any = chunk, kind: str = "other") -> list[RunEvent]:
    """A request, its answer in pieces, and the answer's end."""
    asked = event(0, "model.requested", {"model": "m"})
    told = [event(n, kind, body_of(piece)) for n, piece in enumerate(pieces, 1)]
    return [asked, *told, event(len(pieces) + 1, "model.responded", {"status": "done"})]


def masked(events: Sequence[RunEvent], start: int = 0) -> MaskedSlice:
    """The events as one slice."""
    builder = SliceBuilder(start, NOW_US, 0.0, Memories(KEYS, {}))
    for offset, each in enumerate(events, start):
        builder.take([Message(offset, NOW_US, b"run-1", encode(each))], masker(), AT)
    return builder.finish("id", masker(), AT)


def rows(*slices: MaskedSlice) -> list[dict[str, Any]]:
    found = [row for each in slices for part in each.parts for row in part.rows.to_pylist()]
    assert [row["kafka_offset"] for row in found] == list(range(len(found)))
    return found


def contents(found: Sequence[dict[str, Any]]) -> list[str]:
    bodies = [json.loads(row["body"]) for row in found]
    return [body["choices"][0]["delta"]["content"] for body in bodies if "choices" in body]


def cut(text: str, *at: int) -> list[str]:
    return [text[a:b] for a, b in pairwise([0, *at, len(text)])]
