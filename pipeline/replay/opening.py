"""From what a user names (a lake, a file, a bundle; keys, rules, grants) to a replayer."""

import getpass
import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from pipeline.emitter.calls import Answer, Call
from pipeline.emitter.ids import system_clock
from pipeline.emitter.policy import MatchingPolicy
from pipeline.errors import UsageError
from pipeline.replay.archive import Archive, BundleArchive, FileArchive, LakeArchive
from pipeline.replay.authority import Authority, Grant
from pipeline.replay.batch import Setting
from pipeline.replay.bundle import write_bundle
from pipeline.replay.cell import load_agent
from pipeline.replay.modes import Provider
from pipeline.replay.record import RecordedRun
from pipeline.replay.replayer import Replayer
from pipeline.replay.session import Replayed
from redactors import KeyRing, Redactor, load_or_create_keys, load_ruleset
from redactors.keys import default_key_file
from schemas import encode_json

GRANTED_S: Final = 3_600
"""How long a grant of the command line holds."""

BUNDLE_SUFFIX: Final = ".bundle"


@dataclass(frozen=True, slots=True)
class Source:
    """What a command was given; exactly one of `lake` and `file` is.  A file with the suffix
    `.bundle` is a bundle."""

    lake: str = ""
    file: Path | None = None
    keys: Path | None = None
    rules: Path | None = None
    purpose: str | None = None
    matching: Path | None = None
    command: str = "replay"
    setting: Setting = field(default_factory=Setting)
    is_apart: bool = True
    """Whether the archive must not lie where the agent's code may read."""

    def replayer(self) -> Replayer:
        """Opens everything."""
        ring, _ = load_or_create_keys(self.keys)
        policy = MatchingPolicy.load(self.matching) if self.matching else None
        return Replayer(self._archive(ring), ring, policy, self._setting())

    def _archive(self, ring: KeyRing) -> Archive:
        if bool(self.lake) == (self.file is not None):
            raise UsageError(
                "a replay reads one archive", code="usage", hint="give --lake, or --from FILE"
            )
        if self.file is None:
            return self._lake(ring)
        if self.file.suffix == BUNDLE_SUFFIX:
            return BundleArchive.open(self.file, system_clock())
        ruleset = load_ruleset(self.rules)
        return FileArchive.open(self.file, Redactor(ruleset, ring), ruleset, system_clock())

    def _lake(self, ring: KeyRing) -> LakeArchive:
        from pipeline.lake.live import open_lake
        from pipeline.records.access import Opener

        opener = Opener(
            open_lake(self.lake), getpass.getuser(), self.command, self.purpose, system_clock, ring
        )
        return LakeArchive(opener)

    def _setting(self) -> Setting:
        """Keeps lake, file and keys out of the agent's sight."""
        places = [self.keys or default_key_file()]
        if self.file is not None and self.is_apart:
            places.append(self.file)
        if self.lake and "://" not in self.lake:
            places.append(Path(self.lake))
        apart = tuple(place for place in places if place.exists())
        return Setting(
            self.setting.import_path, apart, self.setting.use_kernel, self.setting.accept_audit_hook
        )


def chosen_runs(
    archive: Archive, run_id: str | None, over: str | None, attempt: int | None = None
) -> list[RecordedRun]:
    """The run that is named, those of a query over a lake, or all of a file."""
    if run_id is not None and over is None:
        return [archive.run(run_id, attempt)]
    if over is not None and run_id is None and isinstance(archive, LakeArchive):
        return list(archive.runs_of(over))
    if run_id is None and over is None and not isinstance(archive, LakeArchive):
        ids: Sequence[str] = getattr(archive, "run_ids", ())
        return [archive.run(each) for each in ids]
    raise UsageError(
        "nothing says which runs to replay",
        code="usage",
        hint="give RUN, or --over with a query over --lake, or --from alone for all of a file",
    )


def authority(grants: Iterable[str], spent: frozenset[str], now_us: int) -> Authority:
    """The grants of a command line, from now on for an hour."""
    until_us = now_us + GRANTED_S * 1_000_000
    return Authority([Grant.parse(text, until_us) for text in grants], now_us=now_us, spent=spent)


def provider(name: str | None) -> Provider:
    """Makes substituted calls with the function that `module:function` names: it gets the request
    and gives the body of the answer."""
    if name is None:
        raise UsageError(
            "nothing answers the substituted calls", code="usage", hint="give --provider"
        )
    function = load_agent(name)

    def make(call: Call) -> Answer:
        answer: Any = function(call.boundary, call.request)  # the same shape as an agent's
        return Answer(answer if call.boundary == "model" else {"content": answer, "status": "ok"})

    return make


def load_task(path: Path | None) -> Any:
    """The raw task in a file of JSON; None without one."""
    return json.loads(path.read_text("utf-8")) if path is not None else None


def export(replayer: Replayer, runs: Sequence[RecordedRun], path: Path) -> None:
    """Writes a bundle of runs to a new file."""
    deadline_us = min((r.deadline_us for r in runs if r.deadline_us is not None), default=None)
    ruleset = replayer.archive.ruleset_of(runs[0])
    new_file(replayer, path, runs, lambda file: write_bundle(file, runs, ruleset, deadline_us))


def capture(
    replayer: Replayer, replayed: Iterable[Replayed], runs: Sequence[RecordedRun], path: Path
) -> None:
    """Writes what replays did to a new file of run events."""
    lines = [encode_json(event) + b"\n" for each in replayed for event in each.events]
    new_file(replayer, path, runs, lambda file: file.writelines(lines))


def new_file(
    replayer: Replayer,
    path: Path,
    runs: Sequence[RecordedRun],
    write: Callable[[BinaryIO], object],
) -> None:
    """Writes a new file (0600) from runs, entered as a copy where they come from a lake: it then
    goes with the first of their rows."""
    if isinstance(replayer.archive, LakeArchive):
        from pipeline.retention.copies import Copier

        lake, names = replayer.archive.opener.lake, frozenset().union(*(r.files for r in runs))
        files = [file for table in lake.files.values() for file in table if file.path in names]
        copier = Copier(lake.store, getpass.getuser(), platform.node(), system_clock)
        copier.export(path, "bundle", files, write)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(
            f"{path} is there already", code="copy-exists", hint="choose another name"
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        write(file)
