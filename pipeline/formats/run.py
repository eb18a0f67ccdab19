"""One run of a file: its events, numbered as they come."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.formats.base import derived_id, json_text
from schemas import Producer, RunEvent


class Run:
    """Makes the events of one run.

    `at_us` is the time of the events that come next: until an importer sets it, that of the import.
    """

    def __init__(
        self, run_id: str, producer: str, captured_at_us: int, parent_run_id: str | None = None
    ) -> None:
        self.run_id, self.at_us = run_id, captured_at_us
        self._captured_at_us, self._parent_run_id = captured_at_us, parent_run_id
        self._producer = Producer(producer)
        self._sequence = 0

    def event(
        self,
        kind: str,
        body: str | Mapping[str, Any],
        *,
        kind_name: str | None = None,
        name: str | None = None,
        call_id: str | None = None,
    ) -> RunEvent:
        """The next event; a `body` that is text is JSON already."""
        sequence, self._sequence = self._sequence, self._sequence + 1
        return RunEvent(
            event_id=derived_id(self.run_id, sequence),
            run_id=self.run_id,
            parent_run_id=self._parent_run_id,
            sequence=sequence,
            occurred_at=self.at_us,
            captured_at=self._captured_at_us,
            kind=kind,
            kind_name=kind_name,
            body=body if isinstance(body, str) else json_text(body),
            name=name,
            call_id=call_id,
            producer=self._producer,
        )

    def declare(self, state: str, *inputs: str) -> Iterator[RunEvent]:
        """Says of parts of the run record that the file has nothing of them, or cannot have."""
        for each in inputs:
            yield self.event("input.declared", {"input": each, "state": state}, name=each)
