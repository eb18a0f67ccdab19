"""`redactory emit`: recorded runs from files → Kafka."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import Bootstrap, ClientFile, Format, Registry, RegistryFile


def register(app: typer.Typer) -> None:
    """Adds `emit`."""
    app.command(rich_help_panel="Run")(emit)


def emit(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH…", help="Files or folders, plain or gzip.")
    ],
    topic: Annotated[str, typer.Option(help="Topic to write to; made if it is missing.")],
    bootstrap: Bootstrap,
    format_name: Format = "auto",
    partitions: Annotated[
        int, typer.Option(min=1, help="Partitions of the topic, if it has to be made.")
    ] = 4,
    config: ClientFile = None,
    registry: Registry = None,
    registry_config: RegistryFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Send the runs in files to a topic, each event once and in order.

    Sending a file again sends the same events with the same ids.
    """
    from pipeline.emitter.ids import system_clock
    from pipeline.emitter.terminal import Target, emit_with_progress, print_emitted

    target = Target(bootstrap, topic, partitions, config, registry, registry_config)
    done = emit_with_progress(paths, target, format_name, system_clock())
    print_emitted(done, as_json)
    if done.refused:
        raise typer.Exit(3)
