"""`redactory deadletters`: the messages that could not be stored as events."""

import json
import sys
from typing import Annotated

import typer

from pipeline.cli.options import (
    Bootstrap,
    ClientFile,
    Keys,
    Lake,
    PolicyFile,
    Registry,
    RegistryFile,
    Rules,
)

deadletters_app = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(
        deadletters_app,
        name="deadletters",
        help="Look at messages that are no events, and retry them.",
        rich_help_panel="Operate",
    )


RecordFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="What a record holds: otlp-json, otlp-proto; without it, as it was read.",
        show_default=False,
    ),
]


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
def retry(
    lake: Lake,
    bootstrap: Bootstrap,
    topic: Annotated[str | None, typer.Option(help="Only those of this topic.")] = None,
    code: Annotated[str | None, typer.Option(help="Only those with this reason code.")] = None,
    format_name: RecordFormat = None,
    rules: Rules = None,
    keys: Keys = None,
    policy: PolicyFile = None,
    config: ClientFile = None,
    registry: Registry = None,
    registry_config: RegistryFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Read dead letters again, as far as their topics have them, under the present rules.

    What is an event now becomes one, and its dead letter goes: both at once. Exit code 1 if some
    of those that could be read again are still no events. A topic that was read without --format
    and holds requests of OTLP after all is read as one with it.
    """
    from pipeline.config import IngestConfig
    from pipeline.deadletters import check_code
    from pipeline.retrying import retry_in_lake
    from pipeline.unpacking import encoding_of

    settings = IngestConfig(
        bootstrap=bootstrap,
        topic=topic or "",
        lake=lake,
        rules=str(rules) if rules else None,
        keys=str(keys) if keys else None,
        policy=str(policy) if policy else None,
        client_config=str(config) if config else None,
        registry=registry,
        registry_config=str(registry_config) if registry_config else None,
        encoding=encoding_of(format_name) if format_name else "",
    )
    report = retry_in_lake(settings, topic, check_code(code))
    if as_json:
        told = {"stored": report.stored, "gone": report.gone, "stay": dict(report.stay)}
        typer.echo(json.dumps(told, sort_keys=True))
    else:
        typer.echo(f"{report.stored:,} are events now")
        for why, count in report.stay.most_common():
            typer.echo(f"{count:,} stay: {why}")
        typer.echo(f"{report.gone:,} are not in their topic any more")
    if report.stay:
        raise typer.Exit(1)


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
