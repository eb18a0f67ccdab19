"""Emitting files as a person sees it: a bar in a terminal, sentences elsewhere, all on stderr."""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.emitter.client import Emitter
from pipeline.emitter.files import Emitted, emit_files, find_inputs
from pipeline.emitter.topic import prepare_topic
from pipeline.errors import BrokerError
from pipeline.registry.client import open_registry
from pipeline.registry.judging import emitted_as


@dataclass(frozen=True, slots=True)
class Target:
    """The topic to emit to; `partitions` counts if it has to be made.

    `registry` is the address of a schema registry whose id for the schema goes with each event.
    """

    bootstrap: str
    topic: str
    partitions: int
    config_file: Path | None = None
    registry: str | None = None
    registry_file: Path | None = None

    def schema_id(self) -> int | None:
        """The id of the schema that events are emitted with; None without a registry."""
        if self.registry is None:
            return None
        return emitted_as(open_registry(self.registry, self.registry_file), self.topic)


def emit_with_progress(
    paths: Iterable[Path], target: Target, format_name: str, captured_at_us: int
) -> Emitted:
    """Emit the files at `paths` and wait until the broker has them.

    Raises InputError, UsageError, RegistryError or BrokerError; what was sent until then stays
    sent, and sending it again gives the same events.
    """
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    inputs, others = find_inputs(paths, format_name)
    for path in others:
        console.print(f"left out: {path} is not in a format asked for", style="dim")
    schema_id = target.schema_id()
    if prepare_topic(target.bootstrap, target.topic, target.config_file, target.partitions):
        console.print(f"made the topic {target.topic}, {target.partitions} partitions")

    def on_trouble(trouble: BrokerError) -> None:
        console.print(f"waiting: {trouble}", style="yellow")

    columns = (TextColumn("emitting"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    total_bytes = sum(file.path.stat().st_size for file in inputs)
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        Emitter(
            target.bootstrap,
            target.topic,
            config_file=target.config_file,
            schema_id=schema_id,
            on_trouble=on_trouble,
        ) as emitter,
    ):
        task = bar.add_task("emitting", total=total_bytes)
        done = emit_files(
            inputs, emitter, captured_at_us, lambda read_bytes: bar.advance(task, read_bytes)
        )
    for problem in done.refused:
        console.print(f"not sent: {problem}", style="red")
    return done


def print_emitted(done: Emitted, as_json: bool) -> None:
    """Print the summary to stdout: a sentence, or one JSON object."""
    counts = {
        "files": done.files,
        "runs": done.runs,
        "events": done.events,
        "bytes": done.size_bytes,
        "refused": len(done.refused),
    }
    if as_json:
        sys.stdout.write(json.dumps(counts) + "\n")
        return
    sys.stdout.write(
        f"emitted {done.events:,} events of {done.runs:,} runs from {done.files:,} files "
        f"({done.size_bytes:,} bytes)\n"
    )
