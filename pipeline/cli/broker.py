"""`redactory broker`: a local Kafka for demos and tests."""

import json
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

broker_app = typer.Typer(no_args_is_help=True)

Directory = Annotated[
    Path, typer.Option("--dir", help="Where the broker keeps its data.", file_okay=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

DEFAULT_DIRECTORY = platformdirs.user_data_path("redactory") / "broker"


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(
        broker_app,
        name="broker",
        help="Run a local one-node Kafka (needs Java 17 or newer, and Maven once).",
        rich_help_panel="Try it",
    )


@broker_app.command()
def start(
    directory: Directory = DEFAULT_DIRECTORY,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on the loopback.  [default: 9092]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start it and wait until it answers; start it again to pick up its data after a crash."""
    from pipeline import broker

    running = broker.start(directory, port, _report)
    _print(running.bootstrap, running.pid, directory, as_json)


@broker_app.command()
def stop(directory: Directory = DEFAULT_DIRECTORY, as_json: AsJson = False) -> None:
    """Stop it cleanly; its data stays."""
    from pipeline import broker

    was = broker.stop(directory)
    if as_json:
        typer.echo(json.dumps({"stopped": was is not None, "dir": str(directory)}))
    else:
        typer.echo(f"stopped {was.bootstrap}" if was else f"no broker runs in {directory}")


@broker_app.command()
def status(directory: Directory = DEFAULT_DIRECTORY, as_json: AsJson = False) -> None:
    """Say whether it runs and answers; exit code 1 if not."""
    from pipeline import broker

    running = broker.find(directory)
    if running and broker.is_ready(running, directory):
        _print(running.bootstrap, running.pid, directory, as_json)
        return
    state = "starting" if running else "stopped"
    typer.echo(json.dumps({"state": state, "dir": str(directory)}) if as_json else state)
    raise typer.Exit(1)


@broker_app.command()
def fetch() -> None:
    """Fetch the broker's jars now, so that it starts without a network later."""
    from pipeline.broker.jars import fetch_jars

    typer.echo(fetch_jars(_report))


def _report(line: str) -> None:
    typer.echo(line, err=True)


def _print(bootstrap: str, pid: int, directory: Path, as_json: bool) -> None:
    if as_json:
        fields = {"state": "running", "bootstrap": bootstrap, "pid": pid, "dir": str(directory)}
        typer.echo(json.dumps(fields))
    else:
        typer.echo(f"running on {bootstrap} (pid {pid}, data in {directory})")
