"""`redactory deadletters`: the messages that could not be stored as events."""

import json
import sys
from typing import Annotated

import typer

from pipeline.cli.options import Lake

deadletters_app = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(
        deadletters_app,
        name="deadletters",
        help="Look at messages that are no events.",
        rich_help_panel="Operate",
    )


@deadletters_app.command("list")
def list_(
    lake: Lake,
    code: Annotated[str | None, typer.Option(help="Only those with this reason code.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of row objects.")] = False,
) -> None:
    """List where dead letters stand in their topics and why; what they say is stored nowhere."""
    from pipeline.deadletters import listing_sql
    from pipeline.lake import open_lake, rendering
    from pipeline.lake.query import query

    result = query(open_lake(lake), listing_sql(code, last))
    if as_json:
        sys.stdout.writelines(rendering.as_json(result))
        return
    typer.echo("  ".join(result.columns))
    for row in result.rows:
        typer.echo("  ".join(rendering.as_cells(row)))


@deadletters_app.command()
def codes(
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Say what each reason code means."""
    from pipeline.deadletters import CODES

    if as_json:
        typer.echo(json.dumps(dict(CODES), indent=2))
        return
    for code, meaning in CODES.items():
        typer.echo(f"{code:20} {meaning}")
