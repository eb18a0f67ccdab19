"""`redactory redact`: the Unix filter."""

import sys
from typing import Annotated

import typer

from pipeline.cli.options import Keys, Rules


def register(app: typer.Typer) -> None:
    """Adds `redact`."""
    app.command(rich_help_panel="Redact")(redact)


def redact(
    rules: Rules = None,
    keys: Keys = None,
    declare: Annotated[
        bool, typer.Option("--declare", help='Write {"value": …, "redactions": […]} a line.')
    ] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Lines are plain text, not JSON values.")
    ] = False,
) -> None:
    """Mask what stands on standard input, a JSON value a line, on its way to standard output.

    A line that cannot be examined is left out and named on standard error; the exit code is then 3.
    """
    from redactors import Redactor, load_or_create_keys, load_ruleset
    from redactors.filter import Refused, redact_lines

    ring, created = load_or_create_keys(keys)
    if created:
        typer.echo(f"made key {ring.current} in your key file", err=True)
    redactor = Redactor(load_ruleset(rules), ring)
    refused = False
    for output in redact_lines(sys.stdin.buffer, redactor, text=text, declare=declare):
        if isinstance(output, Refused):
            refused = True
            typer.echo(f"line {output.line} left out: {output.code}", err=True)
        else:
            sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
    if refused:
        raise typer.Exit(3)
