"""Numbers and stamps the events of one run, so that an agent only says what happened."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.emitter.ids import Clock, NewId, id_source, system_clock
from schemas import KINDS, OTHER, DeclaredRedaction, Producer, RunEvent


@dataclass(slots=True)
class RunRecorder:
    """Makes the events of one attempt at a run, in order.

    `clock` gives epoch microseconds, `new_id` event ids; both default to the system's.
    """

    run_id: str
    producer: Producer
    attempt: int = 1
    parent_run_id: str | None = None
    retry_of: str | None = None
    retention_class: str | None = None
    subjects: tuple[str, ...] = ()
    clock: Clock = system_clock
    new_id: NewId = field(default_factory=id_source)
    next_sequence: int = 0

    def event(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        name: str | None = None,
        call_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> RunEvent:
        """The next event; `body` takes what JSON takes (see `schemas.kinds` for its fields)."""
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return self.written(
            kind,
            text,
            self.clock(),
            name=name,
            call_id=call_id,
            idempotency_key=idempotency_key,
        )

    def written(
        self,
        kind: str,
        body: str,
        occurred_at: int,
        *,
        name: str | None = None,
        call_id: str | None = None,
        idempotency_key: str | None = None,
        redactions: tuple[DeclaredRedaction, ...] = (),
        ruleset: str | None = None,
    ) -> RunEvent:
        """The next event, whose body is JSON text, with what was masked in it under which rules.
        `occurred_at` is in epoch microseconds.

        A kind that the schema does not list becomes `other`, with its name.
        """
        sequence, self.next_sequence = self.next_sequence, self.next_sequence + 1
        return RunEvent(
            event_id=self.new_id(),
            run_id=self.run_id,
            parent_run_id=self.parent_run_id,
            retry_of=self.retry_of,
            attempt=self.attempt,
            sequence=sequence,
            occurred_at=occurred_at,
            kind=kind if kind in KINDS else OTHER,
            kind_name=None if kind in KINDS else kind,
            name=name,
            call_id=call_id,
            idempotency_key=idempotency_key,
            body=body,
            retention_class=self.retention_class,
            subjects=self.subjects,
            producer=self.producer,
            redactions=redactions,
            ruleset=ruleset,
        )
