"""`redactory diff`: where two runs differ."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import Keys, Rules
from pipeline.cli.replay import From, Lake, Purpose


def register(app: typer.Typer) -> None:
    """Adds `diff`."""
    app.command(rich_help_panel="Replay")(diff)


def diff(
    one: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    other: Annotated[str, typer.Argument(metavar="RUN", help="Id of another.")],
    lake: Lake = "",
    file: From = None,
    other_file: Annotated[
        Path | None, typer.Option("--other-from", help="File of the second run, if it is another.")
    ] = None,
    prompt: Annotated[
        bool, typer.Option("--prompt", help="Another prompt was declared: it is no difference.")
    ] = False,
    model: Annotated[
        bool, typer.Option("--model", help="Another model was declared: it is no difference.")
    ] = False,
    declared: Annotated[
        list[str] | None, typer.Option(help="JSON pointer into model requests that was declared.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All differences, not the first.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write the runs side by side as a page.")
    ] = None,
    rules: Rules = None,
    keys: Keys = None,
    purpose: Purpose = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the first difference of two runs, and what kind it is: redaction, environment,
    nondeterminism or behaviour.

    Steps count from 0. Exit code 1 if there is a difference.
    """
    from pipeline.replay import opening, show
    from pipeline.replay.comparing import compare
    from pipeline.replay.difference import Declared

    source = opening.Source(lake, file, keys, rules, purpose, command="diff")
    other_source = source if other_file is None else opening.Source("", other_file, keys, rules)
    declaration = Declared(prompt, model, tuple(declared or ()))
    found = compare(source, other_source, (one, other), declaration, html, every=every)
    if as_json:
        typer.echo(json.dumps(show.as_dicts(found)))
    else:
        typer.echo("\n".join(show.difference_lines(found)))
    if found:
        raise typer.Exit(1)
