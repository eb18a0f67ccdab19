"""`redactory log`: the lake's commit log."""

from typing import Annotated

import typer

log_app = typer.Typer(no_args_is_help=True)

LakeOption = Annotated[
    str, typer.Option("--lake", envvar="REDACTORY_LAKE", help="Directory or s3:// prefix.")
]


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(
        log_app, name="log", help="Look at the lake's commit log.", rich_help_panel="Operate"
    )


@log_app.command()
def show(
    lake: LakeOption,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many entries of each partition.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print all entries as JSON.")] = False,
) -> None:
    """Show where each partition stands, its last commits and an intent that waits."""
    from pipeline.lake.history import read_histories
    from pipeline.lake.showing import history_as_json, print_histories
    from pipeline.lake.store import Store

    histories = read_histories(Store.open(lake), topic, partition)
    if as_json:
        typer.echo(history_as_json(histories))
    else:
        print_histories(histories, last)


@log_app.command()
def supersede(
    lake: LakeOption,
    topic: Annotated[str, typer.Option(help="Topic of the partition.")],
    partition: Annotated[int, typer.Option(min=0, help="The partition.")],
    reason: Annotated[str, typer.Option(help="Why it cannot be redone; kept in the log.")],
) -> None:
    """Clear an intent that cannot be redone (its rules crash, its key is gone).

    Its records are read again by the next ingest, under the rules of then.
    """
    from pipeline.lake.layout import new_claim
    from pipeline.lake.log import PartitionLog
    from pipeline.lake.store import Store

    entry = PartitionLog(Store.open(lake), topic, partition).supersede(reason, new_claim())
    typer.echo(f"entry {entry.number} is closed; the next one starts at offset {entry.start}")
