"""Replays many runs in one isolated process."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import platformdirs

from pipeline.emitter.calls import Answer, Call, failure
from pipeline.emitter.policy import MatchingPolicy
from pipeline.errors import PipelineError
from pipeline.replay.bundle import packed, trial_of, unpacked_line
from pipeline.replay.errors import Stopped
from pipeline.replay.isolation import Protection, check_accepted, confines
from pipeline.replay.modes import Provider
from pipeline.replay.record import RecordedRun
from pipeline.replay.session import Replayed, Rules, compared, event_of_fields
from redactors import ruleset_document

END_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Setting:
    """How a batch is isolated.

    `import_path` is where the agent's code lies, `apart` what must not lie in its sight.  Without
    `use_kernel` Python's audit hook alone denies it the world, which must be accepted.
    """

    import_path: tuple[Path, ...] = ()
    apart: tuple[Path, ...] = ()
    use_kernel: bool = True
    accept_audit_hook: bool = False


@dataclass(slots=True)
class Batch:
    """Replays with the agent `module:function` names; a context manager.

    Starting it probes that a missing fixture, a socket, a program and a file are denied, and raises
    PipelineError where one is not.
    """

    agent: str
    rules: Rules
    policy: MatchingPolicy
    now_us: int
    setting: Setting = Setting()
    protection: Protection | None = None
    _process: Any = field(default=None, repr=False)
    _scratch: Any = field(default=None, repr=False)

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="redactory-replay-")
        try:
            self._start(Path(self._scratch.name))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def recorded(self, run: RecordedRun) -> Replayed:
        """Everything from the record."""
        texts = self.rules.texts(run, by_label=self.policy.by_label)
        return compared(run, self._replay(run, (), None), texts)

    def hybrid(
        self, run: RecordedRun, substituted: Collection[str], provider: Provider
    ) -> Replayed:
        """Calls of the `substituted` boundaries are made by `provider`, in this process."""
        self.rules.texts(run, by_label=self.policy.by_label)  # raises where its key is gone
        return self._replay(run, tuple(substituted), provider)

    def _start(self, scratch: Path) -> None:
        inside = confines(scratch, self.setting.import_path)
        for archive in self.setting.apart:
            inside.check_apart(archive)
        paths = [*map(str, self.setting.import_path), *filter(None, sys.path)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pipeline.replay.cell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What an agent says may hold anything.
            stderr=None if os.environ.get("REDACTORY_DEBUG") else subprocess.DEVNULL,
            cwd=scratch,
            env=_environment(scratch, paths),
        )
        keys = self.rules.keys
        self._write(
            {
                "scratch": str(scratch),
                "readable": [str(path) for path in inside.readable],
                "use_kernel": self.setting.use_kernel,
                "ruleset": ruleset_document(self.rules.ruleset).decode(),
                "key": keys.current if keys else "",
                "keys": {key_id: key.hex() for key_id, key in keys.keys.items()} if keys else {},
                "policy": self.policy.text(),
                "now_us": self.now_us,
                "agent": self.agent,
            }
        )
        told = self._read()
        check_probe(told["probe"])
        self.protection = Protection(**told["protection"])
        check_accepted(self.protection, accept_audit_hook=self.setting.accept_audit_hook)

    def _replay(
        self, run: RecordedRun, substituted: tuple[str, ...], provider: Provider | None
    ) -> Replayed:
        self._write({"trial": trial_of(run), "substituted": substituted})
        while "make" in (told := self._read()):
            assert provider is not None
            self._write(_made(provider, Call(*told["make"])))
        result = told["result"]
        events = tuple(map(event_of_fields, result.pop("events")))
        assert self.protection is not None
        seen = {"isolation": self.protection.as_dict(), "events": events}
        return Replayed(**result | {"substituted": tuple(result["substituted"]), **seen})

    def _write(self, message: Any) -> None:
        try:
            self._process.stdin.write(packed(message) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _ended() from None

    def _read(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise _ended()
        return unpacked_line(line)

    def _end(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
        self._scratch.cleanup()


def check_probe(probe: dict[str, bool]) -> None:
    """Raises PipelineError unless everything that a batch tried first was stopped."""
    let_through = sorted(name for name, is_stopped in probe.items() if not is_stopped)
    if let_through or not probe:
        names = ", ".join(name.replace("_", " ") for name in let_through) or "nothing was tried"
        raise PipelineError(
            f"the isolated process was not stopped where it must be ({names})",
            code="probe",
            hint="nothing was replayed; run `redactory doctor` or replay on Linux",
        )


def replay_all(
    batch: Batch,
    runs: Iterable[RecordedRun],
    substituted: Collection[str] = (),
    provider: Provider | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Replayed]:
    """Every run, recorded or (with `substituted`) hybrid."""
    replayed = []
    for number, run in enumerate(runs, start=1):
        if substituted:
            assert provider is not None
            replayed.append(batch.hybrid(run, substituted, provider))
        else:
            replayed.append(batch.recorded(run))
        on_progress(number)
    return replayed


def _made(provider: Provider, call: Call) -> dict[str, Any]:
    try:
        answer: Answer = provider(call)
    except Stopped as refused:
        place = [refused.place.step, refused.place.boundary, refused.place.name]
        return {"refused": {"place": place, "what": refused.what}}
    except Exception as error:
        answer = failure(error)
    return {"answer": [answer.body, answer.is_ok]}


def _environment(scratch: Path, paths: Iterable[str]) -> dict[str, str]:
    """Little of ours: no name of a lake, no key."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {
        **kept,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "XDG_CACHE_HOME": str(platformdirs.user_cache_path("redactory").parent),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _ended() -> PipelineError:
    return PipelineError(
        "the isolated process has ended before its time",
        code="cell-ended",
        hint="check that --agent names a function that can be imported",
    )
