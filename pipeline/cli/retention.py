"""`redactory retention`: what goes when, and proof that it went."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

retention_app = typer.Typer(no_args_is_help=True)

LakeOption = Annotated[
    str, typer.Option("--lake", envvar="REDACTORY_LAKE", help="Directory or s3:// prefix.")
]
KeysOption = Annotated[
    Path | None, typer.Option("--keys", envvar="REDACTORY_KEYS", help="Key ring (default: yours).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Instant = Annotated[
    datetime | None,
    typer.Option("--now", help="What if it were this time (UTC)?  [default: now]"),
]


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(
        retention_app,
        name="retention",
        help="Remove what has reached its deadline, and prove it.",
        rich_help_panel="Operate",
    )


@retention_app.command()
def plan(lake: LakeOption, now: Instant = None, as_json: AsJson = False) -> None:
    """Show what a sweep would remove, now or at another instant; changes nothing."""
    from pipeline.retention import showing
    from pipeline.retention.sweep import plan_lake

    found = plan_lake(lake, _micros(now))
    if as_json:
        typer.echo(showing.plan_as_json(found))
    else:
        showing.print_plan(found)


@retention_app.command()
def sweep(
    lake: LakeOption,
    keys: KeysOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    strays: Annotated[
        bool, typer.Option(help="Look through the whole lake for files outside the live set.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Remove what has reached its deadline, list again, and write a receipt.

    Exit code 3 if something would not go: the receipt names it.
    """
    from pipeline.retention import showing
    from pipeline.retention.sweep import sweep_lake

    if dry_run:
        plan(lake, as_json=as_json)
        return
    receipt = sweep_lake(lake, keys, with_strays=strays)
    if as_json:
        typer.echo(showing.receipt_as_json(receipt))
    else:
        showing.print_receipt(receipt)
    if receipt is not None and not receipt.is_complete:
        raise typer.Exit(3)


@retention_app.command()
def log(
    lake: LakeOption,
    last: Annotated[int, typer.Option(min=1, help="How many entries to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the ledger of removals and check its chain; exit code 1 if the chain is broken."""
    from pipeline.lake.store import Store
    from pipeline.retention import showing
    from pipeline.retention.ledger import Ledger

    ledger = Ledger(Store.open(lake), "")
    entries, broken, head = list(ledger.entries()), ledger.check(), ledger.head()
    if as_json:
        typer.echo(showing.ledger_as_json(entries, broken, head))
    else:
        showing.print_ledger(entries, broken, head, last)
    if broken:
        raise typer.Exit(1)


def _micros(instant: datetime | None) -> int | None:
    return int(instant.replace(tzinfo=UTC).timestamp() * 1e6) if instant else None
