"""The live mode: calls are made, and recorded before and after."""

from collections.abc import Mapping
from typing import Any

from pipeline.emitter.boundary import LookUp
from pipeline.emitter.calls import KINDS, Answer, Call
from pipeline.emitter.journal import Journal
from pipeline.emitter.tape import Tape


class Live:
    """Makes every call.  An effect waits until its intent is durable.

    `journal` keeps the raw arguments of open calls, so that a run which dies can be resumed.
    """

    def __init__(self, tape: Tape, journal: Journal | None = None) -> None:
        self.tape, self.journal = tape, journal

    def begin(self, call: Call, look_up: LookUp | None) -> Answer | Call:
        """Journal, then intent, then (for an effect) wait for the disk or the broker.

        What a model is asked is masked and written while it answers: that changes nothing outside.
        """
        kinds = KINDS[call.boundary]
        if kinds.asked == kinds.answered:
            return call
        if self.journal is not None:
            self.journal.put(call.call_id, call.request)
        if call.boundary == "model":
            self.tape.behind(kinds.asked, call.asked, call=call)
            return call
        self.tape.ask(call)
        if call.boundary == "effect":
            self.tape.sync()
        return call

    def end(self, call: Call, answer: Answer) -> Answer:
        """The result is recorded; then the step is closed."""
        self.tape.answer(call, answer)
        if self.journal is not None:
            self.journal.close(call.call_id)
        return answer

    def note(self, kind: str, body: Mapping[str, Any], name: str | None) -> None:
        """Recorded as it comes."""
        self.tape.note(kind, body, name)
