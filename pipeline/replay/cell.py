"""The isolated process: closes itself in, probes that it is, then replays what it is sent.

Run as `python -P -m pipeline.replay.cell`.  Its input and output are JSON lines, and all that
connects it to the world: what a trial may see comes in, results go out, and the calls of a hybrid
replay's substituted boundaries are made by the process outside, under its authority.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from pipeline.emitter.calls import Answer, Call
from pipeline.emitter.policy import MatchingPolicy
from pipeline.errors import UsageError
from pipeline.replay.bundle import packed, run_of, unpacked_line
from pipeline.replay.errors import Denied, Missing, Place, Stopped
from pipeline.replay.isolation import AUDIT_HOOK, Confines, Protection, enclose, watch
from pipeline.replay.matching import Matcher
from pipeline.replay.modes import Recorded
from pipeline.replay.record import RecordedRun
from pipeline.replay.session import Agent, Player, Rules, event_fields
from redactors import KeyRing, Redactor, parse_document

NOWHERE: Final = Place(0, "", "")


def load_agent(name: str) -> Agent:
    """The function that `module:function` names; raises UsageError."""
    module, _, function = name.partition(":")
    try:
        agent: Agent = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError):
        raise UsageError(
            f"there is no agent {name}",
            code="agent",
            hint="give MODULE:FUNCTION, and --path for where the module lies",
        ) from None
    return agent


class Cell:
    """One batch of replays in this process."""

    def __init__(self, source: BinaryIO, out: BinaryIO) -> None:
        self._source, self._out = source, out
        self._mode: Recorded | None = None
        self._place = NOWHERE

    def serve(self) -> None:
        """Until the input ends."""
        told = self._read()
        assert told is not None
        keys = KeyRing(told["key"], {i: bytes.fromhex(k) for i, k in told["keys"].items()})
        rules = Rules(parse_document(told["ruleset"].encode()), keys if told["keys"] else None)
        # What is worked out from rules is kept on the disk, where nothing is written from here on.
        rules.adopt(Redactor(rules.ruleset, rules.keys, by="emitter"))
        scratch = Path(told["scratch"])
        enclose(
            Confines(scratch, tuple(map(Path, told["readable"]))), use_kernel=told["use_kernel"]
        )
        protection = _seen_protection(scratch)
        watch(scratch, lambda: self._place, self._denied)
        player = Player(rules, MatchingPolicy.parse(told["policy"]), told["now_us"], self._watched)
        probe = self._probe(player, scratch)
        agent = load_agent(told["agent"])
        self._write({"protection": protection.as_dict(), "probe": probe})
        while (asked := self._read()) is not None:
            self._write({"result": self._result(player, agent, asked)})

    def _probe(self, player: Player, scratch: Path) -> dict[str, bool]:
        """What must be stopped before anything is replayed, and whether it was."""
        missing = player.recorded(RecordedRun("probe", 1, ()), _asks_what_nobody_recorded)
        denied = {name: _is_stopped(attempt, Denied) for name, attempt in _attempts(scratch)}
        return {"missing_fixture": missing.outcome == Missing.reason, **denied}

    def _result(self, player: Player, agent: Agent, asked: Any) -> dict[str, Any]:
        run = run_of(asked["trial"])
        if asked["substituted"]:
            replayed = player.hybrid(run, agent, asked["substituted"], self._make)
        else:
            replayed = player.recorded(run, agent)
        return replayed.as_dict() | {"events": list(map(event_fields, replayed.events))}

    def _make(self, call: Call) -> Answer:
        """A substituted call, made outside."""
        asked = [call.boundary, call.name, call.request, call.occurrence, call.call_id, call.key]
        self._write({"make": asked})
        made = self._read()
        assert made is not None
        if "refused" in made:
            raise Stopped(Place(*made["refused"]["place"]), made["refused"]["what"])
        return Answer(*made["answer"])

    def _watched(self, mode: Recorded, matcher: Matcher) -> None:
        self._mode = mode
        matcher.on_place = self._at

    def _at(self, place: Place) -> None:
        self._place = place

    def _denied(self, denied: Denied) -> None:
        if self._mode is not None and self._mode.stopped is None:
            self._mode.stopped = denied

    def _read(self) -> Any:
        line = self._source.readline()
        return unpacked_line(line) if line else None

    def _write(self, message: Any) -> None:
        self._out.write(packed(message) + b"\n")
        self._out.flush()


def _asks_what_nobody_recorded(world: Any, task: Any) -> None:
    world.tool("probe", {}, lambda arguments: None)


def _attempts(scratch: Path) -> list[tuple[str, Callable[[], Any]]]:
    return [
        ("sockets", lambda: socket.socket().connect(("127.0.0.1", 9))),
        ("programs", lambda: subprocess.run([sys.executable, "-c", ""], check=False)),
        ("files", lambda: (scratch.parent / f"{scratch.name}.probe").write_text("probe")),
    ]


def _is_stopped(attempt: Callable[[], Any], by: type[Exception]) -> bool:
    try:
        attempt()
    except by:
        return True
    except OSError:
        return False
    return False


def _seen_protection(scratch: Path) -> Protection:
    """What the kernel stops, as tried: nothing is believed."""
    names = {"sockets": "seccomp", "programs": "seccomp", "files": "landlock"}
    by = {
        name: names[name] if _is_stopped(attempt, PermissionError) else AUDIT_HOOK
        for name, attempt in _attempts(scratch)
    }
    return Protection(**by)


def main() -> None:
    """The agent's own output goes nowhere: it may hold anything."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    Cell(sys.stdin.buffer, out).serve()


if __name__ == "__main__":
    main()
