"""The modes behind an agent's boundary: recorded, hybrid and fresh.  (Forensic executes nothing.)

Whatever stops a replay is remembered: an agent that catches the error gets it again at its next
call, and the replay's result is that it stopped.
"""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pipeline.emitter.boundary import LookUp
from pipeline.emitter.calls import Answer, Call
from pipeline.emitter.live import Live
from pipeline.emitter.tape import Tape
from pipeline.replay.authority import Authority
from pipeline.replay.errors import Diverged, Expired, Missing, Place, Stopped, Withheld
from pipeline.replay.matching import Matcher
from pipeline.replay.record import RecordedCall

Provider = Callable[[Call], Answer]
"""Makes a call that a hybrid replay substitutes, under its authority."""


class Recorded:
    """Answers every call from the record, in order, and lets none be made.

    `tape` takes what the replay does.
    """

    def __init__(self, tape: Tape, matcher: Matcher, now_us: int) -> None:
        self.tape, self.matcher, self._now_us = tape, matcher, now_us
        self.stopped: Stopped | None = None

    def begin(self, call: Call, look_up: LookUp | None) -> Answer | Call:
        """The recorded answer."""
        answer: Answer = self._stopping(lambda: self._answer(call, self.matcher.place(call)))
        return answer

    def end(self, call: Call, answer: Answer) -> Answer:
        """Never: no call is made."""
        raise AssertionError("a recorded replay has let a call be made")

    def note(self, kind: str, body: Mapping[str, Any], name: str | None) -> None:
        """Recorded as it comes; whether it is what was recorded is seen at the end."""
        self.tape.note(kind, body, name)

    def finish(self) -> None:
        """Raises Diverged if the record goes on."""
        if self.stopped is not None:
            raise self.stopped
        if self.matcher.left:
            left = self.matcher.left[0]
            raise Diverged(left.place, "", f"{left.boundary} {left.name}", None)

    def _answer(self, call: Call, place: Place) -> Answer:
        found = self.matcher.same(call)
        if found is None:
            found = self.matcher.take(call, ask(self.tape, call), place)
        elif call.boundary not in ("clock", "random"):
            self.tape.repeat(call)
        answer = usable(found, place, self._now_us)
        self.tape.repeat(call, answer)
        return answer

    def _stopping(self, step: Callable[[], Any]) -> Any:
        if self.stopped is not None:
            raise self.stopped
        try:
            return step()
        except Stopped as stopped:
            self.stopped = stopped
            raise


class Hybrid(Recorded):
    """As recorded, but some boundaries are substituted: `model`, or `tool:<name>`.

    `provider` makes their calls; the others are answered from the record in any order, and a branch
    that it does not support is a miss.
    """

    def __init__(
        self,
        tape: Tape,
        matcher: Matcher,
        now_us: int,
        substituted: Collection[str],
        provider: Provider,
    ) -> None:
        super().__init__(tape, matcher, now_us)
        self._substituted, self._provider = frozenset(substituted), provider

    def finish(self) -> None:
        """The record may go on."""
        if self.stopped is not None:
            raise self.stopped

    def _answer(self, call: Call, place: Place) -> Answer:
        if not self._substituted & {call.boundary, f"{call.boundary}:{call.name}"}:
            return super()._answer(call, place)
        ask(self.tape, call)
        answer = self._provider(call)
        self.tape.answer(call, answer)
        return answer


class Fresh(Live):
    """Makes calls live, each under the authority that covers it, and records them anew."""

    def __init__(
        self, tape: Tape, matcher: Matcher, authority: Authority, clock: Callable[[], int]
    ) -> None:
        super().__init__(tape)
        self._matcher, self._authority, self._clock = matcher, authority, clock
        self.stopped: Stopped | None = None

    def begin(self, call: Call, look_up: LookUp | None) -> Answer | Call:
        """Checks the authority, then records and makes the call."""
        if self.stopped is not None:
            raise self.stopped
        place, approval = self._matcher.place(call), call.request.get("approval")
        try:
            if call.boundary in ("model", "tool", "effect"):
                self._authority.check(call, place, self._clock(), approval)
        except Stopped as stopped:
            self.stopped = stopped
            raise
        return super().begin(call, look_up)


def ask(tape: Tape, call: Call) -> Any:
    """Records that a call is asked for; gives its body as masked."""
    if call.boundary in ("clock", "random"):
        return {}
    return json.loads(tape.ask(call).body)


def usable(found: RecordedCall, place: Place, now_us: int) -> Answer:
    """The answer of a recorded call, if it may be used."""
    if found.deadline_us is not None and found.deadline_us <= now_us:
        raise Expired(
            place,
            "the recorded answer is past its deadline",
            hint="hold a run that is to be replayed for longer: redactory retention hold",
        )
    if found.answer is None:
        raise Missing(place, "the record has the call, but no answer to it")
    if found.withheld:
        raise Withheld(place, f"the recorded answer was withheld ({found.withheld})")
    return found.answer
