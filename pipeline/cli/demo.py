"""`redactory demo`: everything once, with nothing left running."""

import time
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds `demo`."""
    app.command(rich_help_panel="Try it")(demo)


def demo(
    directory: Annotated[
        Path, typer.Option("--dir", help="Made anew each time.", file_okay=False)
    ] = Path("demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start a broker, emit runs of a scripted agent, ingest them, and show what was stored.

    Exit code 1 if an event is missing or the lake does not verify.
    """
    from pipeline.demo import print_demo, run_demo

    done = run_demo(directory, time.time_ns() // 1000, lambda line: typer.echo(line, err=True))
    print_demo(done, as_json)
    if not done.is_clean:
        raise typer.Exit(1)
