"""What a trial may see: the fixtures and inputs of the runs it replays, and nothing else.

No message, decision, artifact or outcome of a run is in it, no other run, and no archive; what a
replay said is compared with the record outside.  A bundle in a file is a copy with a deadline, and
no replay takes an answer from it after that.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from pipeline.emitter.calls import Answer
from pipeline.emitter.policy import MatchingPolicy
from pipeline.errors import InputError
from pipeline.replay.errors import Place
from pipeline.replay.record import RecordedCall, RecordedRun
from redactors import Ruleset, parse_document, ruleset_document

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Bundle:
    """Trials with the rules that they were masked by; `deadline_us` is epoch microseconds."""

    deadline_us: int | None
    ruleset: Ruleset
    trials: tuple[dict[str, Any], ...]

    def runs(self) -> Iterator[RecordedRun]:
        """The runs, as far as a trial may see them."""
        return map(run_of, self.trials)


def packed(value: Any) -> bytes:
    """One line of JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair, a number of more than 64 bits
        return json.dumps(value).encode()


def unpacked_line(line: bytes) -> Any:
    """The value of such a line."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)


def trial_of(run: RecordedRun) -> dict[str, Any]:
    """What a replay of a run may see, as JSON."""
    return {
        "run_id": run.run_id,
        "attempt": run.attempt,
        "task": run.task,
        "matching": run.matching.text() if run.matching else None,
        "key_ids": run.key_ids,
        "calls": [_call(call) for call in run.calls],
    }


def run_of(trial: dict[str, Any]) -> RecordedRun:
    """The run that a trial tells of."""
    run = RecordedRun(trial["run_id"], trial["attempt"], (), is_trial=True)
    run.task, run.key_ids = trial["task"], tuple(trial["key_ids"])
    run.matching = MatchingPolicy.parse(trial["matching"]) if trial["matching"] else None
    run.calls = [_recorded(call) for call in trial["calls"]]
    run.deadline_us = min((c.deadline_us for c in run.calls if c.deadline_us), default=None)
    return run


def write_bundle(
    file: BinaryIO, runs: Iterable[RecordedRun], ruleset: Ruleset, deadline_us: int | None
) -> None:
    """One line about the bundle, then a line for each run.  Every answer's deadline is at most the
    bundle's."""
    head = {
        "format": FORMAT,
        "deadline_us": deadline_us,
        "ruleset": ruleset_document(ruleset).decode(),
    }
    file.write(packed(head) + b"\n")
    for run in runs:
        file.write(packed(trial_of(run)) + b"\n")


def read_bundle(path: Path) -> Bundle:
    """The bundle in a file; raises InputError if it is none."""
    try:
        head, *trials = map(unpacked_line, path.read_bytes().split(b"\n")[:-1])
        if head["format"] != FORMAT:
            raise ValueError
        bundle = Bundle(
            head["deadline_us"], parse_document(head["ruleset"].encode()), tuple(trials)
        )
        for trial in trials:
            run_of(trial)
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is no bundle", code="bundle", hint="make one with replay --export"
        ) from None
    for trial in bundle.trials:
        for call in trial["calls"]:
            ends_us = [us for us in (call["deadline_us"], bundle.deadline_us) if us is not None]
            call["deadline_us"] = min(ends_us, default=None)
    return bundle


def _call(call: RecordedCall) -> dict[str, Any]:
    return {
        "place": [call.place.step, call.place.boundary, call.place.name],
        "call_id": call.call_id,
        "request": call.request,
        "asked_at": call.asked_at,
        "answered_at": call.answered_at,
        "answer": [call.answer.body, call.answer.is_ok] if call.answer else None,
        "key": call.key,
        "deadline_us": call.deadline_us,
        "withheld": call.withheld,
    }


def _recorded(told: dict[str, Any]) -> RecordedCall:
    place = Place(*told["place"])
    return RecordedCall(
        place=place,
        boundary=place.boundary,  # type: ignore[arg-type]  # one of a recorded call's
        name=place.name,
        call_id=told["call_id"],
        request=told["request"],
        asked_at=told["asked_at"],
        key=told["key"],
        answer=Answer(*told["answer"]) if told["answer"] else None,
        answered_at=told["answered_at"],
        deadline_us=told["deadline_us"],
        withheld=told["withheld"],
    )
