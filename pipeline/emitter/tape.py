"""The tape: what happens at a boundary, as events that are masked before anybody sees them.

The same rules as in the pipeline, under the same keys: an event masked here is not changed there.
"""

import json
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, Protocol

from pipeline.emitter.calls import KINDS, Answer, Call
from pipeline.emitter.recorder import RunRecorder
from redactors import Redacted, Redaction, Redactor, RunMemory, Unexaminable
from schemas import MAX_SIZE_BYTES, DeclaredRedaction, RunEvent

BODY_MAX_BYTES: Final = MAX_SIZE_BYTES - 65_536
"""A body that is longer is withheld: no reader would take its event."""


class Sink(Protocol):
    """Where masked events go."""

    def emit(self, event: RunEvent, /) -> object:
        """Takes one event; raises rather than drop it."""

    def sync(self) -> None:
        """Returns when every event taken so far is durable."""


class Tape:
    """Records one attempt at a run, in order; may be shared between threads.

    `redactor` masks what goes on the tape, with a memory of the run's own.
    """

    def __init__(self, recorder: RunRecorder, redactor: Redactor, sink: Sink) -> None:
        self.redactor = redactor
        self.run_id = recorder.run_id
        self._recorder, self._sink = recorder, sink
        self._memory = RunMemory()
        self._lock, self._order = Lock(), Lock()
        self._names: dict[str, tuple[str, tuple[Redaction, ...]]] = {}
        self._worker = ThreadPoolExecutor(1, "redactory-tape")  # a thread once it is needed
        self._underway: deque[Future[RunEvent]] = deque()

    def ask(self, call: Call) -> RunEvent:
        """Records that a call is about to be made."""
        return self._write(KINDS[call.boundary].asked, call.asked, call)

    def answer(self, call: Call, answer: Answer) -> RunEvent:
        """Records what a call gave."""
        return self._write(KINDS[call.boundary].answered, answer.body, call)

    def repeat(self, call: Call, answer: Answer | None = None) -> RunEvent:
        """Records a request, or an answer, that comes from a record, and so is masked already."""
        kinds = KINDS[call.boundary]
        if answer is None:
            return self._write(kinds.asked, call.asked, call, is_masked=True)
        return self._write(kinds.answered, answer.body, call, is_masked=True)

    def note(
        self,
        kind: str,
        body: Mapping[str, Any],
        name: str | None = None,
        *,
        is_masked: bool = False,
    ) -> RunEvent:
        """Records anything else."""
        return self._write(kind, body, None, name, is_masked=is_masked)

    def masked(self, value: Any) -> Any:
        """A JSON value as this run's events would hold it; nothing is recorded."""
        self.finish()
        with self._lock:
            return json.loads(self.redactor.redact_json(_text(value), self._memory).text)

    def behind(
        self,
        kind: str,
        body: Mapping[str, Any],
        name: str | None = None,
        *,
        call: Call | None = None,
        is_masked: bool = False,
    ) -> None:
        """Records something, as it is now, while the agent goes on.

        The order stays: whatever is recorded otherwise waits for it, and raises what it raised.
        """
        told = kind, _told(body, is_masked), call, name, self._recorder.clock()
        with self._order:
            self._underway.append(self._worker.submit(self._written, *told))

    def finish(self) -> None:
        """Returns when everything was written; raises what kept it from being."""
        with self._order:
            while self._underway:
                self._underway.popleft().result()

    def sync(self) -> None:
        """Returns when what was recorded is durable."""
        self.finish()
        self._sink.sync()

    def _write(
        self,
        kind: str,
        body: Mapping[str, Any],
        call: Call | None,
        name: str | None = None,
        *,
        is_masked: bool = False,
    ) -> RunEvent:
        told = _told(body, is_masked)
        at_us = self._recorder.clock()
        self.finish()
        return self._written(kind, told, call, name, at_us)

    def _written(
        self,
        kind: str,
        body: tuple[str, bool],
        call: Call | None,
        name: str | None,
        at_us: int,
    ) -> RunEvent:
        """Masks and writes one event; `body` is a text, and whether it is masked already."""
        text, is_masked = body
        with self._lock:
            redacted = Redacted(text, ()) if is_masked else self._redacted(text)
            shown, hidden = self._identifier(call.name if call else name)
            event = self._recorder.written(
                kind,
                redacted.text,
                at_us,
                name=shown,
                call_id=call.call_id if call else None,
                idempotency_key=call.key if call else None,
                redactions=tuple(map(_declared, (*redacted.redactions, *hidden))),
                ruleset=self.redactor.digest,
            )
            self._sink.emit(event)
        return event

    def _redacted(self, text: str) -> Redacted:
        try:
            return self.redactor.redact_json(text, self._memory)
        except Unexaminable as error:
            return Redacted(_withheld(error.code)[0], ())

    def _identifier(self, name: str | None) -> tuple[str | None, tuple[Redaction, ...]]:
        if name is None:
            return None, ()
        if name not in self._names:
            shown, hidden = self.redactor.redact_identifiers({"name": name})
            self._names[name] = shown["name"], hidden
        return self._names[name]


def _told(body: Any, is_masked: bool) -> tuple[str, bool]:
    """The text of a body, and whether it is masked; one that cannot be examined is withheld."""
    if is_masked:
        return _text(body), True
    try:
        text = _text(body)
    except RecursionError:
        return _withheld("too-deep")
    except (TypeError, ValueError):
        return _withheld("not-json")
    is_too_large = len(text.encode("utf-8", "surrogatepass")) > BODY_MAX_BYTES
    return _withheld("too-large") if is_too_large else (text, False)


def _withheld(why: str) -> tuple[str, bool]:
    return _text({"withheld": why}), True


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _declared(redaction: Redaction) -> DeclaredRedaction:
    return DeclaredRedaction(
        redaction.path,
        redaction.rule,
        redaction.label,
        redaction.action,
        redaction.span_start,
        redaction.span_end,
        redaction.length,
        redaction.layers,
    )
