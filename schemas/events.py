"""The event as the rest of the project sees it: one observed step of an agent run.

`run_event.avsc` is the same shape on the wire, `codec.py` turns one into the other.
"""

from dataclasses import dataclass
from typing import Final

OTHER: Final = "other"

KINDS: Final[tuple[str, ...]] = (
    "run.started",
    "task.captured",
    "workspace.captured",
    "policy.captured",
    "environment.captured",
    "integration.captured",
    "model.requested",
    "model.responded",
    "tool.requested",
    "tool.responded",
    "effect.intended",
    "effect.completed",
    "message",
    "error",
    "intervention",
    "artifact.produced",
    "decision.made",
    "input.declared",
    "run.finished",
    OTHER,
)


@dataclass(frozen=True, slots=True)
class Producer:
    """The program that made an event."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class DeclaredRedaction:
    """A change that the emitter says it made; payload like everything a producer declares.

    `path` is a JSON pointer into the body or a field name; spans are code points of the innermost
    text (None: the whole value); `layers` are the decodings passed through, outermost first.
    """

    path: str
    rule: str
    label: str
    action: str
    span_start: int | None = None
    span_end: int | None = None
    length: int | None = None
    layers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """One event; times are epoch microseconds in UTC, `body` is JSON text.

    `kind` is one of `KINDS`; for a kind that we do not know it is "other" and `kind_name` holds the
    name that arrived.  `sequence` counts from 0 within (run_id, attempt), `attempt` from 1.
    `captured_at` is set by importers only: retention then counts from it.
    """

    event_id: str
    run_id: str
    sequence: int
    occurred_at: int
    kind: str
    body: str
    attempt: int = 1
    parent_run_id: str | None = None
    retry_of: str | None = None
    captured_at: int | None = None
    kind_name: str | None = None
    name: str | None = None
    call_id: str | None = None
    idempotency_key: str | None = None
    retention_class: str | None = None
    subjects: tuple[str, ...] = ()
    producer: Producer = Producer()
    redactions: tuple[DeclaredRedaction, ...] = ()
    ruleset: str | None = None
