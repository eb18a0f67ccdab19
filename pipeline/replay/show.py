"""Replays and differences as a person reads them.  Everything shown is masked."""

from collections.abc import Iterable, Iterator, Sequence

from pipeline.replay.difference import Found, by_class
from pipeline.replay.errors import shown
from pipeline.replay.isolation import AUDIT_HOOK
from pipeline.replay.record import RecordedRun
from pipeline.replay.regression import Regression
from pipeline.replay.replayer import Forensic
from pipeline.replay.session import Replayed


def replay_lines(replayed: Sequence[Replayed]) -> Iterator[str]:
    """One line for each replay, and why it stopped."""
    for each in replayed:
        yield f"{each.run_id}: {each.outcome}" + (f" ({each.error})" if each.error else "")
        if each.stopped:
            yield f"  {each.stopped['message']}"
        if each.by_label:
            yield f"  {each.by_label} masks were matched by their label alone"
        if AUDIT_HOOK in each.isolation.values():
            yield "  only Python's audit hook kept it from the world"
        if each.substituted:
            yield f"  substituted: {', '.join(each.substituted)}"


def regression_lines(result: Regression) -> Iterator[str]:
    """The outcomes counted, and the warning."""
    told = result.as_dict()
    for verdict, count in told["verdicts"].items():
        yield f"{verdict}: {count} of {told['runs']} ({count / told['runs']:.1%})"
    yield f"misses: {told['misses']} ({told['miss_rate']:.1%})"


def forensic_lines(told: Forensic) -> Iterator[str]:
    """A recorded run by its calls."""
    run = told.run
    yield f"run {run.run_id}, attempt {run.attempt}: {run.status or 'not ended'}"
    for call in run.calls:
        answer = shown(call.answer.body) if call.answer else "no answer"
        yield f"step {call.place.step}  {call.boundary} {call.name}  {shown(call.request)}"
        yield f"        {'' if not call.answer or call.answer.is_ok else 'failed: '}{answer}"
    for key, state in told.effects.items():
        yield f"effect {key}: {state}"


def forensic_dict(told: Forensic) -> dict[str, object]:
    """The same for JSON output."""
    run: RecordedRun = told.run
    calls = [
        {
            "step": call.place.step,
            "boundary": call.boundary,
            "name": call.name,
            "request": call.request,
            "answer": call.answer.body if call.answer else None,
        }
        for call in run.calls
    ]
    return {
        "run_id": run.run_id,
        "attempt": run.attempt,
        "status": run.status,
        "task": run.task,
        "calls": calls,
        "effects": told.effects,
    }


def difference_lines(found: Sequence[Found]) -> Iterator[str]:
    """Each difference in two lines, and how many of each class."""
    for each in found:
        about = f" {each.name}" if each.name else ""
        yield f"step {each.step}: {each.boundary}{about}, {each.side} {each.path} [{each.kind}]"
        yield f"  A {shown(each.one)}"
        yield f"  B {shown(each.other)}"
    yield ", ".join(f"{count} {name}" for name, count in by_class(found).items()) or "no difference"


def as_dicts(found: Iterable[Found]) -> list[dict[str, object]]:
    """Differences for JSON output."""
    return [each.as_dict() for each in found]
