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
    replay: Annotated[
        bool, typer.Option("--replay", help="Kill, resume, replay and compare an agent instead.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="With --replay: seed of everything.")] = 11,
    drift: Annotated[
        float, typer.Option(min=0, max=1, help="With --replay: the carrier's answer moves on.")
    ] = 0.82,
    wrong_v1: Annotated[
        float, typer.Option(min=0, max=1, help="With --replay: prompt v1 takes the wrong date.")
    ] = 0.53,
    wrong_v2: Annotated[
        float, typer.Option(min=0, max=1, help="With --replay: prompt v2 takes the wrong date.")
    ] = 0.16,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start a broker, emit runs of a scripted agent, ingest them, and show what was stored.

    Exit code 1 if an event is missing or the lake does not verify. With --replay: a support agent
    is recorded, killed, resumed, replayed and compared, without a broker; every figure is counted.
    """
    if replay:
        from pipeline.demo.support.example import run_example
        from pipeline.demo.support.services import Probabilities
        from pipeline.demo.support.show import print_example

        chances = Probabilities(drift, wrong_v1, wrong_v2)
        print_example(
            run_example(seed, chances, say=lambda line: typer.echo(line, err=True)), as_json
        )
        return
    from pipeline.demo.run import run_demo
    from pipeline.demo.show import print_demo

    done = run_demo(directory, time.time_ns() // 1000, lambda line: typer.echo(line, err=True))
    print_demo(done, as_json)
    if not done.is_clean:
        raise typer.Exit(1)
