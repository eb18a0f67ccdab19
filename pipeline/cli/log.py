"""`redactory log`: the lake's commit log."""

import json
from typing import Annotated

import typer

from pipeline.cli.options import Lake

log_app = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(
        log_app, name="log", help="Look at the lake's commit log.", rich_help_panel="Operate"
    )


@log_app.command()
def show(
    lake: Lake,
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
    lake: Lake,
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


@log_app.command()
def compact(
    lake: Lake,
    files: Annotated[
        int, typer.Option(min=2, help="Merge only buckets with at least this many files.")
    ] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Merge the small files of each bucket into few with the same rows."""
    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.layout import new_claim
    from pipeline.lake.live import open_lake
    from pipeline.lake.sweeping import Rewriter, crowded_buckets

    found = open_lake(lake)
    rewriter = Rewriter(found.store, new_claim(), system_clock_us())
    done = [rewriter.compact(bucket) for bucket in crowded_buckets(found, files)]
    merged = sum(len(rewrite.removed) for rewrites in done for rewrite in rewrites)
    if as_json:
        typer.echo(json.dumps({"buckets": len(done), "files": merged}))
    else:
        typer.echo(f"merged {merged} files of {len(done)} buckets")


@log_app.command()
def truncate(
    lake: Lake,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Sum each partition's log up in a checkpoint and delete the entries below it.

    What was done to buckets of which nothing is left is summed up as well; receipts stay.
    """
    from pipeline.lake.checkpoints import cut_all
    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.store import Store
    from pipeline.retention.cutting import cut_rewrites

    store = Store.open(lake)
    deleted = cut_all(store) + cut_rewrites(store, system_clock_us())
    typer.echo(json.dumps({"deleted": deleted}) if as_json else f"deleted {deleted} log entries")
