"""Records a run from its first event to its last."""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from pipeline.emitter.boundary import AsyncWorld, World
from pipeline.emitter.ids import Clock, NewId, id_source, system_clock
from pipeline.emitter.journal import TASK, Journal
from pipeline.emitter.live import Live
from pipeline.emitter.policy import MatchingPolicy
from pipeline.emitter.recorder import RunRecorder
from pipeline.emitter.tape import Sink, Tape
from redactors import KeyRing, Redactor, Ruleset, load_ruleset
from schemas import Producer

W = TypeVar("W", World, AsyncWorld)


@dataclass(frozen=True, slots=True)
class Recording:
    """How this agent's runs are recorded.

    `journals` is the folder for journals (None: none is kept, and a run that dies can be resumed
    only where it needs no masked value).  Without `keys` only secrets are masked.
    """

    redactor: Redactor
    keys: KeyRing | None
    producer: Producer
    matching: MatchingPolicy = field(default_factory=MatchingPolicy)
    journals: Path | None = None
    retention_class: str | None = None
    clock: Clock = system_clock
    new_id: NewId = field(default_factory=id_source)

    @classmethod
    def of(
        cls,
        producer: Producer,
        keys: KeyRing | None,
        ruleset: Ruleset | None = None,
        **options: Any,
    ) -> "Recording":
        """A recording under the built-in rules, or others; compiles them."""
        redactor = Redactor(ruleset or load_ruleset(), keys, by="emitter")
        return cls(redactor, keys, producer, **options)

    def tape(self, run_id: str, sink: Sink, attempt: int = 1, next_sequence: int = 0) -> Tape:
        """A tape for one attempt at a run."""
        recorder = RunRecorder(
            run_id,
            self.producer,
            attempt=attempt,
            retry_of=run_id if attempt > 1 else None,
            retention_class=self.retention_class,
            clock=self.clock,
            new_id=self.new_id,
            next_sequence=next_sequence,
        )
        return Tape(recorder, self.redactor, sink)

    def journal(self, run_id: str) -> Journal | None:
        """The run's journal, if journals are kept."""
        if self.journals is None or self.keys is None:
            return None
        return Journal(self.journals, self.keys, run_id)

    @contextmanager
    def run(
        self,
        task: Any,
        sink: Sink,
        *,
        run_id: str | None = None,
        attempt: int = 1,
        world: Callable[[Live, str], W] = World,  # type: ignore[assignment]  # W is the default's own
    ) -> Iterator[W]:
        """The world of a new run, live.  `world` may be `AsyncWorld`.

        The run is failed if the block raises, else completed; both end its journal.
        """
        run_id = run_id or self.new_id()
        tape, journal = self.tape(run_id, sink, attempt), self.journal(run_id)
        if journal is not None:
            journal.put(TASK, task)
        begin(tape, task, self.matching)
        with ending(tape, journal):
            yield world(Live(tape, journal), run_id)


def begin(
    tape: Tape, task: Any, matching: MatchingPolicy, *, is_masked: bool = False, after: int = 0
) -> None:
    """The first events of a run: what it was given, where it runs, how its calls are matched.

    `is_masked`: the task comes from a record.  `after`: so many of them are recorded already.
    """
    masking = {"ruleset": tape.redactor.digest, "key_id": tape.redactor.key_id}
    write = tape.note if is_masked else tape.behind
    opening: tuple[tuple[str, dict[str, Any], str | None], ...] = (
        ("run.started", {"trigger": {"type": "agent"}, "masking": masking}, None),
        ("task.captured", {"task": task}, None),
        ("environment.captured", {"toolchain": _toolchain()}, None),
        ("integration.captured", {"matching_policy": matching.text()}, "matching"),
    )
    for kind, body, name in opening[after:]:
        # All but the task is ours, and holds nothing to mask.
        write(kind, body, name=name, is_masked=is_masked or kind != "task.captured")


@cache
def _toolchain() -> dict[str, str]:
    return {"python": platform.python_version(), "redactory": version("redactory")}


@contextmanager
def ending(
    tape: Tape, journal: Journal | None, unless: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Records how the run ends, and ends its journal.

    A run that is interrupted, or stopped by one of `unless`, has not ended: it can be resumed.
    """
    try:
        yield
    except unless:
        tape.finish()
        raise
    except Exception as error:
        tape.note("run.finished", {"status": "failed", "summary": type(error).__name__})
        _close(journal)
        raise
    except BaseException:
        tape.finish()
        raise
    tape.note("run.finished", {"status": "completed"})
    _close(journal)


def _close(journal: Journal | None) -> None:
    if journal is not None:
        journal.end()
