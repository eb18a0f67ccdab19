"""The four questions to a recorded run, each under its own authority.

| mode | question | authority |
| --- | --- | --- |
| forensic | what was recorded? | the access policy of what is retained; executes nothing |
| recorded | how does this code behave with the retained answers? | none: an isolated process |
| fresh | what happens now, under declared conditions? | grants, current and scoped |
| hybrid | a new model or prompt on recorded results | grants for what is substituted |
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.emitter.calls import Answer, Call
from pipeline.emitter.ids import Clock, system_clock
from pipeline.emitter.policy import MatchingPolicy
from pipeline.emitter.run import Recording, begin, ending
from pipeline.emitter.tape import Sink
from pipeline.errors import UsageError
from pipeline.replay.archive import Archive
from pipeline.replay.authority import Authority
from pipeline.replay.batch import Batch, Setting
from pipeline.replay.errors import Place, Stopped
from pipeline.replay.masked import MaskedText
from pipeline.replay.matching import Matcher
from pipeline.replay.modes import Fresh, Provider
from pipeline.replay.record import RecordedRun
from pipeline.replay.session import DONE, FAILED, Agent, Kept, Replayed, Rules, call_agent
from redactors import KeyRing


@dataclass(frozen=True, slots=True)
class Observation:
    """What a live look-up saw, later than the run: it is no part of the record."""

    name: str
    value: Any
    observed_at_us: int
    is_later: bool = True


@dataclass(frozen=True, slots=True)
class Forensic:
    """What was recorded.  Looking into the world needs an authority of its own."""

    run: RecordedRun
    clock: Clock = system_clock

    @property
    def effects(self) -> dict[str, str]:
        """The state of each effect by its key: `completed`, or `unknown` without a result."""
        return {
            call.key or call.call_id: "completed" if call.answer else "unknown"
            for call in self.run.calls
            if call.boundary == "effect"
        }

    def look_up(
        self, name: str, arguments: Any, call: Callable[[Any], Any], authority: Authority
    ) -> Observation:
        """Asks a tool live; raises Unauthorised without a grant for it."""
        asked = Call("tool", name, {"arguments": arguments}, 0, "look-up")
        now_us = self.clock()
        authority.check(asked, Place(0, "tool", name), now_us)
        return Observation(name, call(arguments), now_us)


@dataclass(frozen=True, slots=True)
class Replayer:
    """Replays runs of an archive; `policy` must be the one they were recorded under, if any."""

    archive: Archive
    keys: KeyRing | None
    policy: MatchingPolicy | None = None
    setting: Setting = field(default_factory=Setting)
    clock: Clock = system_clock

    def forensic(self, run_id: str) -> Forensic:
        """What was recorded; nothing is executed."""
        return Forensic(self.archive.run(run_id), self.clock)

    def recorded(self, runs: Iterable[RecordedRun], agent: str) -> list[Replayed]:
        """Each run with the code that `module:function` names, in one isolated process."""
        some = _some(runs)
        with self._batch(some, agent) as batch:
            return [batch.recorded(run) for run in some]

    def hybrid(
        self,
        runs: Iterable[RecordedRun],
        agent: str,
        substituted: Collection[str],
        provider: Provider,
        authority: Authority,
    ) -> list[Replayed]:
        """As recorded, but calls of the `substituted` boundaries are made by `provider`, outside
        the isolated process and under `authority`."""
        some = _some(runs)

        def make(call: Call) -> Answer:
            authority.check(call, Place(0, call.boundary, call.name), self.clock())
            return provider(call)

        with self._batch(some, agent) as batch:
            return [batch.hybrid(run, substituted, make) for run in some]

    def fresh(
        self,
        run: RecordedRun,
        agent: Agent,
        recording: Recording,
        authority: Authority,
        *,
        task: Any = None,
        run_id: str | None = None,
        sink: Sink | None = None,
    ) -> Replayed:
        """The task anew, live, in this process; `task` is the raw one (the record's is masked).

        What it does is recorded as a run of its own in `sink`.
        """
        kept = Kept()
        run_id = run_id or recording.new_id()
        tape = recording.tape(run_id, _Both(kept, sink) if sink is not None else kept)
        matcher = Matcher(run, recording.matching, _no_texts(recording), in_order=True)
        mode = Fresh(tape, matcher, authority, self.clock)
        begin(tape, run.task if task is None else task, recording.matching)
        returned, error = None, ""
        try:
            with ending(tape, None):
                returned = call_agent(agent, mode, run_id, run.task if task is None else task)
        except Stopped as stopped:
            mode.stopped = mode.stopped or stopped
        except Exception as raised:
            error = type(raised).__name__
        outcome = mode.stopped.reason if mode.stopped else FAILED if error else DONE
        told = mode.stopped.as_dict() if mode.stopped else None
        return Replayed(
            run_id,
            "fresh",
            outcome,
            tape.masked(returned),
            error,
            told,
            events=tuple(kept.events),
        )

    def rules_of(self, run: RecordedRun) -> Rules:
        """The rules that a run was masked by."""
        return Rules(self.archive.ruleset_of(run), self.keys)

    def policy_of(self, runs: Iterable[RecordedRun]) -> MatchingPolicy:
        """The policy that all the runs were recorded under; raises UsageError where they, or the
        one that was given, do not agree."""
        recorded = {run.matching.text(): run.matching for run in runs if run.matching}
        if self.policy is not None:
            recorded[self.policy.text()] = self.policy
        if len(recorded) > 1:
            raise UsageError(
                "the runs were recorded under another matching policy",
                code="matching-policy",
                hint="leave --matching out: a run's own policy is in its record",
            )
        return next(iter(recorded.values()), MatchingPolicy())

    def _batch(self, runs: Sequence[RecordedRun], agent: str) -> Batch:
        policy = self.policy_of(runs)
        return Batch(agent, self.rules_of(runs[0]), policy, self.clock(), self.setting)


class _Both:
    """Two sinks."""

    def __init__(self, one: Sink, other: Sink) -> None:
        self._sinks = one, other

    def emit(self, event: Any, /) -> None:
        for sink in self._sinks:
            sink.emit(event)

    def sync(self) -> None:
        for sink in self._sinks:
            sink.sync()


def _some(runs: Iterable[RecordedRun]) -> list[RecordedRun]:
    some = list(runs)
    if not some:
        raise UsageError("there is no run to replay", code="no-run", hint="check RUN or --over")
    return some


def _no_texts(recording: Recording) -> MaskedText:
    return MaskedText(recording.redactor.masks, recording.keys)
