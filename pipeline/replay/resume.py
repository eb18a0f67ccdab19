"""Goes on with a run that died: what was recorded is not done again, and what was open is.

    1. the state is folded from the saved events: the agent's code runs again from its beginning and
       gets every recorded answer, without a call being made
    2. the call that has no answer is made again under the same key: its raw arguments come from the
       journal, or from values that this process has seen and whose masks are the same
    3. from there on everything is live, and recorded where the record ended

A tool or an effect never gets a mask in place of a value: the resume then stops.  A model may.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.emitter.boundary import LookUp
from pipeline.emitter.calls import Answer, Call
from pipeline.emitter.journal import TASK, Journal
from pipeline.emitter.live import Live
from pipeline.emitter.run import Recording, begin, ending
from pipeline.emitter.tape import Sink, Tape
from pipeline.errors import UsageError
from pipeline.replay.errors import Diverged, Missing, Place, Stopped, UnknownEffect, Withheld
from pipeline.replay.masked import MaskedText, first_difference
from pipeline.replay.matching import Matcher
from pipeline.replay.modes import usable
from pipeline.replay.record import RecordedCall, RecordedRun
from pipeline.replay.session import Agent, Rules, call_agent
from redactors.masks import Masks


def resume(
    agent: Agent,
    run: RecordedRun,
    sink: Sink,
    recording: Recording,
    rules: Rules,
    *,
    resend_unknown: bool = False,
) -> Any:
    """Goes on with `run` where its record ends, into `sink`; what the agent returns.

    `resend_unknown`: effects of which nobody knows whether they took place are made again, though
    their service may then do them twice.
    """
    _check_open(run)
    policy = run.matching or recording.matching
    redactor = rules.redactor(run, by_label=policy.by_label)
    recording = replace(recording, redactor=redactor)
    tape = recording.tape(run.run_id, sink, run.attempt, next_sequence=run.events[-1].sequence + 1)
    journal = recording.journal(run.run_id)
    texts = rules.texts(run, by_label=policy.by_label)
    opener = Opener(tape, texts)
    task = _task(run, journal)
    opener.learn(task)
    matcher = Matcher(run, policy, texts, in_order=True)
    now_us = recording.clock()
    mode = Resuming(run, tape, journal, matcher, opener, now_us, resend_unknown=resend_unknown)
    with ending(tape, journal, unless=(Stopped,)):
        begin(tape, task, policy, after=len(run.events))
        returned = call_agent(agent, mode, run.run_id, task)
        if mode.stopped is not None:  # the agent has caught it
            raise mode.stopped
        return returned


def restart(agent: Agent, run: RecordedRun, sink: Sink, recording: Recording) -> Any:
    """Runs the task of `run` again from its beginning, as its next attempt.

    Effects keep their keys: a service that honours them does nothing twice.
    """
    _check_open(run)
    task = _task(run, recording.journal(run.run_id))
    if _holds_mask(task, recording.redactor.masks):
        raise _withheld(Place(0, "task", ""), "the task")
    with recording.run(task, sink, run_id=run.run_id, attempt=run.attempt + 1) as world:
        return call_agent(agent, world.mode, run.run_id, task)


class Opener:
    """Puts raw values in the place of masks, as far as this process has seen them.

    Masks are the same everywhere: a value that is seen again tells what its mask stood for.
    """

    def __init__(self, tape: Tape, texts: MaskedText) -> None:
        self._tape, self._texts = tape, texts
        self._known: dict[str, str] = {}

    def learn(self, raw: Any) -> None:
        """Remembers which masks the texts of a raw value become."""
        self._learn(self._tape.masked(raw), raw)

    def open(self, value: Any) -> tuple[Any, bool]:
        """The value with its masks replaced, and whether any is left."""
        match value:
            case str():
                return self._open_text(value)
            case dict():
                opened = {name: self.open(inner) for name, inner in value.items()}
                values = {name: inner for name, (inner, _) in opened.items()}
                return values, any(is_left for _, is_left in opened.values())
            case list():
                items = [self.open(inner) for inner in value]
                return [inner for inner, _ in items], any(is_left for _, is_left in items)
        return value, False

    def _learn(self, masked: Any, raw: Any) -> None:
        match masked, raw:
            case dict(), dict():
                for inner, raw_inner in zip(masked.values(), raw.values(), strict=False):
                    self._learn(inner, raw_inner)
            case list(), list():
                for inner, raw_inner in zip(masked, raw, strict=False):
                    self._learn(inner, raw_inner)
            case str(), str():
                pairs = self._texts.pairs(masked, raw) or ()
                self._known |= {mask: text for mask, text in pairs if mask.count(":") == 2}

    def _open_text(self, text: str) -> tuple[str, bool]:
        pieces, at, is_left = [], 0, False
        for start, end in self._texts.masks.spans(text):
            mask = text[start:end]
            is_left = is_left or mask not in self._known
            pieces += [text[at:start], self._known.get(mask, mask)]
            at = end
        return "".join([*pieces, text[at:]]), is_left


class Resuming(Live):
    """Recorded as far as the record goes, then live."""

    def __init__(
        self,
        run: RecordedRun,
        tape: Tape,
        journal: Journal | None,
        matcher: Matcher,
        opener: Opener,
        now_us: int,
        *,
        resend_unknown: bool,
    ) -> None:
        super().__init__(tape, journal)
        self._matcher, self._opener, self._now_us = matcher, opener, now_us
        self._resends = resend_unknown
        self.stopped: Stopped | None = None
        self._notes = list(run.notes)

    def begin(self, call: Call, look_up: LookUp | None) -> Answer | Call:
        """The recorded answer; else the call, with its raw arguments."""
        if self.stopped is not None:
            raise self.stopped
        try:
            return self._begin(call, look_up)
        except Stopped as stopped:
            self.stopped = stopped
            raise

    def _begin(self, call: Call, look_up: LookUp | None) -> Answer | Call:
        place = self._matcher.place(call)
        found = self._recorded(call, place)
        if found is not None and found.answer is not None:
            return usable(found, place, self._now_us)
        if found is not None:
            return self._again(found, call, place, look_up)
        return super().begin(replace(call, request=self._raw(call, place)), look_up)

    def end(self, call: Call, answer: Answer) -> Answer:
        """As live; what came back is known from now on."""
        self._opener.learn(answer.body)
        return super().end(call, answer)

    def note(self, kind: str, body: Mapping[str, Any], name: str | None) -> None:
        """What was said before the run died is not said again."""
        if not self._notes:
            super().note(kind, body, name)
            return
        note = self._notes.pop(0)
        masked = self.tape.masked(body)
        found = first_difference([note.kind, note.body], [kind, masked], [kind, body], self._texts)
        if found is not None:
            raise Diverged(Place(note.step, kind, ""), found.path, found.recorded, found.asked)

    @property
    def _texts(self) -> MaskedText:
        return self._matcher.texts

    def _recorded(self, call: Call, place: Place) -> RecordedCall | None:
        if not self._matcher.left:
            return None
        try:
            return self._matcher.take(call, self.tape.masked(call.request), place)
        except Missing:
            if all(left.answer is None for left in self._matcher.left):
                return None  # new, while others are still open
            raise

    def _again(
        self, found: RecordedCall, call: Call, place: Place, look_up: LookUp | None
    ) -> Answer | Call:
        """The call whose answer nobody saved."""
        again = replace(call, call_id=found.call_id, key=found.key)
        again = replace(again, request=self._raw(again, place))
        if call.boundary == "effect" and not (call.honours_key or self._resends):
            if look_up is None:
                raise UnknownEffect(
                    place,
                    "nobody knows whether this effect took place",
                    hint="look at the service; --resend-unknown makes it again",
                )
            known = look_up(found.key or "")
            if known is not None:
                return self.end(again, Answer({"content": known, "status": "ok"}))
        return again

    def _raw(self, call: Call, place: Place) -> Any:
        """The request with its values: from the journal where the process died with the call open,
        else as far as its masks can be opened; raises Withheld where that is too little."""
        kept = self.journal.read(call.call_id) if self.journal is not None else None
        if kept is not None and self._is_same(call.request, kept):
            self._opener.learn(kept)
            return kept
        request, is_left = self._opener.open(call.request)
        if is_left and call.boundary in ("tool", "effect"):
            raise _withheld(place, "an argument")
        return request

    def _is_same(self, asked: Any, kept: Any) -> bool:
        """Whether what the journal kept is what is asked now."""
        one, other = self.tape.masked(asked), self.tape.masked(kept)
        return first_difference(one, other, kept, self._texts) is None


def _check_open(run: RecordedRun) -> None:
    if run.status:
        raise UsageError(
            f"the run has ended ({run.status})",
            code="run-ended",
            hint="only a run that died can be resumed or restarted",
        )


def _task(run: RecordedRun, journal: Journal | None) -> Any:
    """The task as it was given; masked where no journal has it."""
    task = journal.read(TASK) if journal is not None else None
    if task is None and not any(event.kind == "task.captured" for event in run.events):
        raise _withheld(Place(0, "task", ""), "the task")
    return run.task if task is None else task


def _holds_mask(value: Any, masks: Masks) -> bool:
    match value:
        case str():
            return bool(masks.spans(value))
        case dict():
            return any(_holds_mask(inner, masks) for inner in value.values())
        case list():
            return any(_holds_mask(inner, masks) for inner in value)
    return False


def _withheld(place: Place, what: str) -> Withheld:
    return Withheld(
        place,
        f"value withheld: {what} was masked, and no journal has it",
        hint="the journal of open steps lies beside the agent, and for a day at most",
    )
