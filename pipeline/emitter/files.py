"""Emits recorded runs from files."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from pipeline.errors import InputError
from pipeline.formats import AUTO, Format, format_named, format_of, open_source
from schemas import EncodeError, RunEvent

PROGRESS_EVENTS: Final = 100


class Sink(Protocol):
    """Where events go: `Emitter` is one."""

    def emit(self, event: RunEvent, /) -> int:
        """Take one event, return its size in bytes."""


@dataclass(slots=True)
class Emitted:
    """What was emitted; `refused` names each event that no reader would take, and why."""

    files: int = 0
    runs: int = 0
    events: int = 0
    size_bytes: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Input:
    """A file to emit, and its format."""

    path: Path
    format: Format


def find_inputs(paths: Iterable[Path], format_name: str = AUTO) -> tuple[list[Input], list[Path]]:
    """The files at `paths` with their formats, and the files in folders that are of none.

    A path may be a file, a folder (with all below it, in the order of names) or a glob pattern.
    A file that is named must be of the format, or of any for `auto`; in folders and patterns the
    others are left out.  Raises InputError, also if there is no such file, and UsageError for a
    format that does not exist.
    """
    wanted = None if format_name == AUTO else format_named(format_name)
    inputs, others = [], []
    for path in paths:
        for file, is_named in _files(path):
            found = wanted if wanted and is_named else format_of(file)
            if found and wanted in (None, found):
                inputs.append(Input(file, found))
            elif is_named:
                raise InputError(
                    f"{file}: the content shows none of the known formats",
                    code="input-format",
                    hint="name it with --format",
                )
            else:
                others.append(file)
    if not inputs:
        raise InputError(
            "there is no file of a known format", code="input-empty", hint="check PATH"
        )
    return inputs, others


def emit_files(
    inputs: Iterable[Input],
    sink: Sink,
    captured_at_us: int,
    on_progress: Callable[[int], None] = lambda read_bytes: None,
) -> Emitted:
    """Emit every event of the files, in order.

    `captured_at_us` is the time of the import.  `on_progress` is told from time to time how many
    more bytes of the files have been read.  An event that no reader would take is left out and
    named in the result; anything else that cannot be read raises `InputError`.
    """
    done, runs = Emitted(), set()
    for file in inputs:
        with open_source(file.path, captured_at_us) as (source, raw):
            at_bytes = 0
            for number, event in enumerate(file.format.read(source), start=1):
                try:
                    done.size_bytes += sink.emit(event)
                except EncodeError as error:
                    done.refused.append(f"{file.path}: event {number}: {error}")
                    continue
                runs.add(event.run_id)
                done.events += 1
                if number % PROGRESS_EVENTS == 0:
                    on_progress(raw.tell() - at_bytes)
                    at_bytes = raw.tell()
            on_progress(raw.tell() - at_bytes)
        done.files += 1
    done.runs = len(runs)
    return done


def _files(path: Path) -> Iterator[tuple[Path, bool]]:
    """Each file at `path`, and whether it was named itself."""
    found: Iterator[Path] = iter(())
    if path.is_dir():
        found = path.rglob("*")
    elif path.exists():
        yield path, True
        return
    elif any(sign in str(path) for sign in "*?["):
        root = Path(path.anchor)
        found = root.glob(str(path.relative_to(root)))
    files = sorted(file for file in found if file.is_file())
    if not files:
        raise InputError(f"{path}: there is no such file", code="input-missing", hint="check PATH")
    for file in files:
        yield file, False
