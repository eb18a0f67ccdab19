"""`redactory replay` and `redactory resume`, without their printing."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pipeline.emitter.ids import system_clock
from pipeline.emitter.journal import default_journals
from pipeline.emitter.run import Recording
from pipeline.emitter.spool import Spool, read_spool
from pipeline.errors import PipelineError, UsageError
from pipeline.replay.archive import LakeArchive, check_caught_up
from pipeline.replay.cell import load_agent
from pipeline.replay.errors import Diverged, Expired, Missing, Withheld
from pipeline.replay.opening import authority, load_task, provider
from pipeline.replay.record import RecordedRun, recorded_run
from pipeline.replay.regression import Regression, regression
from pipeline.replay.replayer import Replayer
from pipeline.replay.resume import restart, resume
from pipeline.replay.session import DONE, SAME, Rules
from redactors import KeyRing, Redactor, Ruleset
from schemas import Producer

AGENT: Final = Producer("redactory-replay")
_MISSES: Final = (Missing.reason, Diverged.reason, Withheld.reason, Expired.reason)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a replay was asked to do."""

    mode: str
    agent: str
    substituted: tuple[str, ...] = ("model",)
    provider: str | None = None
    allowed: tuple[str, ...] = ()
    task: Path | None = None
    run_id: str | None = None


def replay(replayer: Replayer, runs: list[RecordedRun], wanted: Wanted) -> Regression:
    """Replays the runs in one of the modes that execute something."""
    if not wanted.agent:
        raise UsageError(
            "a replay needs an agent's code", code="usage", hint="give --agent MODULE:FUNCTION"
        )
    spent = frozenset().union(*(run.approvals for run in runs))
    # What is substituted is asked for by name, so that is its grant.
    implied = [_grant(each) for each in wanted.substituted] if wanted.mode == "hybrid" else []
    grants = authority([*wanted.allowed, *implied], spent, system_clock())
    _import_from(replayer.setting.import_path)
    match wanted.mode:
        case "recorded":
            return regression(replayer.recorded(runs, wanted.agent))
        case "hybrid":
            made = provider(wanted.provider)
            return regression(replayer.hybrid(runs, wanted.agent, wanted.substituted, made, grants))
    (run,) = runs
    rules = replayer.rules_of(run)
    recording = _recording(rules.ruleset, rules.keys, None)
    agent = load_agent(wanted.agent)
    task = load_task(wanted.task)
    fresh = replayer.fresh(run, agent, recording, grants, task=task, run_id=wanted.run_id)
    return regression([fresh])


def exit_code(result: Regression, *, counts_misses: bool) -> int:
    """0 if all went through, 1 if one diverged, 3 if one could not go on; with `counts_misses`
    a miss is only counted."""
    outcomes = {each.outcome for each in result.replayed} - {SAME, DONE}
    if counts_misses:
        outcomes -= set(_MISSES)
    if not outcomes:
        return 0
    return 1 if outcomes == {Diverged.reason} else 3


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a run goes on: its agent, the spool that its events are in or go to, and the journals
    beside it."""

    agent: str
    spool: Path
    journals: Path | None = None
    import_path: tuple[Path, ...] = ()
    resend_unknown: bool = False
    is_restart: bool = False


def resume_from_spool(run_id: str, wanted: Resumption, ruleset: Ruleset, keys: KeyRing) -> Any:
    """Goes on with a run whose events are in a spool that no process holds any more."""
    if not wanted.spool.is_file():
        raise UsageError(
            f"{wanted.spool} is no spool", code="spool", hint="name the run's own spool file"
        )
    mine = [event for event in read_spool(wanted.spool) if event.run_id == run_id]
    if not mine:
        raise UsageError(
            "there are no events of this run", code="unknown-run", hint="check RUN and --spool"
        )
    attempt = max(event.attempt for event in mine)
    run = recorded_run(event for event in mine if event.attempt == attempt)
    return _go_on(run, wanted, Rules(ruleset, keys))


def resume_from_lake(run_id: str, wanted: Resumption, replayer: Replayer, high_of: Any) -> Any:
    """Goes on with a run of a lake that has all that its topic has; raises PipelineError
    otherwise.  `high_of` gives the offset after the last record of a topic's partition."""
    archive = replayer.archive
    assert isinstance(archive, LakeArchive)
    run = archive.run(run_id)
    check_caught_up(archive.opener.lake, archive.opener.open(run_id), high_of)
    left = read_spool(wanted.spool) if wanted.spool.is_file() else []
    if any(event.run_id == run_id for event in left):
        raise PipelineError(
            "events of this run are still in the spool",
            code="spool-not-delivered",
            hint="resume from the spool, or let it be delivered and ingested first",
        )
    return _go_on(run, wanted, replayer.rules_of(run))


def _go_on(run: RecordedRun, wanted: Resumption, rules: Rules) -> Any:
    _import_from(wanted.import_path)
    agent = load_agent(wanted.agent)
    journals = wanted.journals or default_journals()
    recording = _recording(rules.ruleset, rules.keys, journals)
    recording = replace(recording, producer=run.events[-1].producer)
    sink = Spool(wanted.spool)
    try:
        if wanted.is_restart:
            return restart(agent, run, sink, recording)
        return resume(agent, run, sink, recording, rules, resend_unknown=wanted.resend_unknown)
    finally:
        sink.close()


def _recording(ruleset: Ruleset, keys: KeyRing | None, journals: Path | None) -> Recording:
    return Recording(Redactor(ruleset, keys, by="emitter"), keys, AGENT, journals=journals)


def _grant(substituted: str) -> str:
    return substituted if ":" in substituted else f"{substituted}:*"


def _import_from(paths: tuple[Path, ...]) -> None:
    for path in paths:
        if str(path.absolute()) not in sys.path:
            sys.path.insert(0, str(path.absolute()))
