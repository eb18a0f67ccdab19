"""Plays one recorded run with an agent's code, in this process, and says how it went."""

import asyncio
import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pipeline.emitter.boundary import AsyncWorld, Mode, World
from pipeline.emitter.policy import MatchingPolicy
from pipeline.emitter.recorder import RunRecorder
from pipeline.emitter.run import begin
from pipeline.emitter.tape import Tape
from pipeline.errors import PipelineError
from pipeline.replay.errors import Diverged, Place, Stopped
from pipeline.replay.masked import MaskedText, first_difference
from pipeline.replay.matching import Matcher
from pipeline.replay.modes import Hybrid, Provider, Recorded
from pipeline.replay.record import NOTES, RecordedRun, parsed, recorded_run
from redactors import KeyRing, Redactor, Ruleset
from redactors.engine import masks_of
from schemas import Producer, RunEvent

REPLAY: Final = Producer("redactory-replay")

Agent = Callable[[Any, Any], Any]
"""An agent's code: `agent(world, task)` gives JSON, or a coroutine of it."""

SAME: Final = "same"
DONE: Final = "done"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a replay of one run went.

    `outcome` is `same` (recorded), `done` (hybrid, fresh), `failed` (the agent raised `error`), or
    why it stopped: `missing`, `diverged`, `withheld`, `expired`, `denied`, `unauthorised`; then
    `stopped` says where.  `returned` is what the agent returned, `events` what it did, masked.
    `by_label` counts masks that were matched by nothing but their label.  `isolation` says by what
    the replay was kept from sockets, programs and files; of a fresh run nothing does.
    """

    run_id: str
    mode: str
    outcome: str
    returned: Any = None
    error: str = ""
    stopped: Mapping[str, Any] | None = None
    by_label: int = 0
    substituted: tuple[str, ...] = ()
    isolation: Mapping[str, str] = field(default_factory=dict)
    events: tuple[RunEvent, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """For JSON output: all but the events."""
        names = ("run_id", "mode", "outcome", "returned", "error", "stopped", "by_label")
        told = {name: getattr(self, name) for name in names}
        return told | {"substituted": [*self.substituted], "isolation": dict(self.isolation)}

    @property
    def run(self) -> RecordedRun:
        """What the replay did, as a record of its own."""
        return recorded_run(self.events)


class Kept:
    """A sink that keeps events in memory."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    def emit(self, event: RunEvent, /) -> None:
        """Keeps it."""
        self.events.append(event)

    def sync(self) -> None:
        """Memory is as durable as it gets here."""


class Rules:
    """Redactors by key id, each compiled once: a request is masked under its record's own keys."""

    def __init__(self, ruleset: Ruleset, keys: KeyRing | None) -> None:
        self.ruleset, self.keys = ruleset, keys
        self._made: dict[str, Redactor] = {}

    def redactor(self, run: RecordedRun, *, by_label: bool) -> Redactor:
        """The redactor for a run; raises PipelineError ("key-gone") if its keys are gone and the
        policy does not let masks match by their label."""
        key_id = self._key_id(run, by_label)
        if key_id not in self._made:
            self._made[key_id] = Redactor(self.ruleset, self._ring(key_id), by="emitter")
        return self._made[key_id]

    def adopt(self, redactor: Redactor) -> None:
        """Takes a redactor of these rules that is compiled already."""
        self._made[redactor.key_id] = redactor

    def texts(self, run: RecordedRun, *, by_label: bool) -> MaskedText:
        """Compares texts of a run; raises as `redactor` does."""
        ring = self._ring(self._key_id(run, by_label))
        return MaskedText(masks_of(self.ruleset, ring), self.keys, by_label)

    def _key_id(self, run: RecordedRun, by_label: bool) -> str:
        current = self.keys.current if self.keys else ""
        known = self.keys.keys if self.keys else {}
        gone = [key_id for key_id in run.key_ids if key_id not in known]
        if gone and not by_label:
            raise PipelineError(
                "the masks of this run are written under a key that is not in the key ring",
                code="key-gone",
                hint="give the ring that has it with --keys, or a matching policy with by_label",
            )
        return next((key_id for key_id in run.key_ids if key_id in known), current)

    def _ring(self, key_id: str) -> KeyRing | None:
        return self.keys.with_current(key_id) if self.keys is not None and key_id else None


@dataclass(frozen=True, slots=True)
class Player:
    """Plays runs under rules and a matching policy; `now_us` is epoch microseconds."""

    rules: Rules
    policy: MatchingPolicy
    now_us: int
    watch: Callable[[Recorded, Matcher], None] = lambda mode, matcher: None

    def recorded(self, run: RecordedRun, agent: Agent) -> Replayed:
        """Nothing live: every answer is the recorded one.  `compared` tells what came of it."""
        tape, kept, matcher = self._tape(run, in_order=True)
        mode = Recorded(tape, matcher, self.now_us)
        self.watch(mode, matcher)
        return _played("recorded", run, agent, mode, kept, matcher)

    def hybrid(
        self, run: RecordedRun, agent: Agent, substituted: Collection[str], provider: Provider
    ) -> Replayed:
        """Some boundaries substituted, the others as recorded."""
        tape, kept, matcher = self._tape(run, in_order=False)
        mode = Hybrid(tape, matcher, self.now_us, substituted, provider)
        self.watch(mode, matcher)
        return _played("hybrid", run, agent, mode, kept, matcher, tuple(substituted))

    def _tape(self, run: RecordedRun, *, in_order: bool) -> tuple[Tape, Kept, Matcher]:
        by_label = self.policy.by_label
        redactor, kept = self.rules.redactor(run, by_label=by_label), Kept()
        tape = Tape(RunRecorder(run.run_id, REPLAY, attempt=run.attempt), redactor, kept)
        texts = MaskedText(redactor.masks, self.rules.keys, by_label)
        begin(tape, run.task, self.policy, is_masked=True)
        return tape, kept, Matcher(run, self.policy, texts, in_order=in_order)


def call_agent(agent: Agent, mode: Mode, run_id: str, task: Any) -> Any:
    """What the agent returns; a coroutine function gets an `AsyncWorld`."""
    if inspect.iscoroutinefunction(agent):
        return asyncio.run(agent(AsyncWorld(mode, run_id), task))
    return agent(World(mode, run_id), task)


def _played(
    name: str,
    run: RecordedRun,
    agent: Agent,
    mode: Recorded,
    kept: Kept,
    matcher: Matcher,
    substituted: tuple[str, ...] = (),
) -> Replayed:
    returned, error = None, ""
    try:
        returned = json.loads(json.dumps(call_agent(agent, mode, run.run_id, run.task)))
        mode.tape.note("run.finished", {"status": "completed"})
    except Exception as raised:
        error = type(raised).__name__
        mode.tape.note("run.finished", {"status": "failed", "summary": error})
    outcome, stopped = FAILED if error else SAME if name == "recorded" else DONE, mode.stopped
    if not error or stopped is not None:
        stopped = _end(mode)
        outcome = stopped.reason if stopped is not None else outcome
    return Replayed(
        run.run_id,
        name,
        outcome,
        mode.tape.masked(returned),
        error,
        stopped.as_dict() if stopped else None,
        matcher.by_label,
        substituted,
        events=tuple(kept.events),
    )


def _end(mode: Recorded) -> Stopped | None:
    try:
        mode.finish()
    except Stopped as stopped:
        return stopped
    return None


def compared(run: RecordedRun, replayed: Replayed, texts: MaskedText) -> Replayed:
    """The result once what the replay said and made is compared with the record, kind by kind.

    A run that was not recorded at our boundary may hold notes that an agent does not repeat.
    """
    if replayed.outcome == FAILED and run.failed_with == replayed.error:
        replayed = replace(replayed, outcome=SAME)
    if replayed.outcome != SAME or run.is_trial:
        return replayed
    stopped = next(_unlike(run, replayed, texts), None)
    if stopped is None:
        return replayed
    return replace(replayed, outcome=stopped.reason, stopped=stopped.as_dict())


def _unlike(run: RecordedRun, replayed: Replayed, texts: MaskedText) -> Iterator[Stopped]:
    for kind in NOTES:
        said = [parsed(event.body) for event in replayed.events if event.kind == kind]
        recorded = [note for note in run.notes if note.kind == kind]
        if not said and run.matching is None:
            continue
        for note, body in zip(recorded, said, strict=False):
            found = first_difference(note.body, body, body, texts)
            if found is not None:
                place = Place(note.step, kind, "")
                yield Diverged(place, found.path, found.recorded, found.asked)
        if len(said) != len(recorded):
            place = Place(recorded[-1].step if recorded else 0, kind, "")
            yield Diverged(place, "", f"{len(recorded)} of these", f"{len(said)} of these")


_FIELDS: Final = (
    *("event_id", "run_id", "sequence", "occurred_at", "kind", "body", "attempt", "kind_name"),
    *("name", "call_id", "idempotency_key", "ruleset"),
)


def event_fields(event: RunEvent) -> list[Any]:
    """What a replay says of an event, for the process outside."""
    return [getattr(event, name) for name in _FIELDS]


def event_of_fields(fields: list[Any]) -> RunEvent:
    """The event again."""
    return RunEvent(**dict(zip(_FIELDS, fields, strict=True)), producer=REPLAY)
