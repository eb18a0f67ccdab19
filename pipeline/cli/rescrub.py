"""`redactory rescrub`: masks what is stored again under stricter rules."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.options import ClientFile, Keys, Lake, Rules

if TYPE_CHECKING:
    from pipeline.review.rescrub.run import Outcome


def register(app: typer.Typer) -> None:
    """Adds `rescrub`."""
    app.command(rich_help_panel="Operate")(rescrub)


def rescrub(
    lake: Lake,
    rules: Rules = None,
    where: Annotated[
        str | None,
        typer.Option(help="Only runs with an event that meets this SQL condition on its columns."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Brokers, host:port[,host:port]: learn from the topic what is masked."),
    ] = None,
    config: ClientFile = None,
    with_open_runs: Annotated[
        bool,
        typer.Option("--with-open-runs", help="Mask their state, too: only where no ingest runs."),
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the receipt.")] = "",
    keys: Keys = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Mask stored rows again under other rules; what is masked stays as it is.

    Whole runs are masked: what a field of one event shows is masked in all of them, and records
    follow. Let ingests take up the rules first; what they hold of open runs is left to them, and is
    told. Exit code 3 if some rows could not be masked, or a copy made before may hold what is
    masked now: the receipt names it.
    """
    from pipeline.lake.proof.topic import Source
    from pipeline.lake.showing import progress_bar
    from pipeline.review.rescrub.run import rescrub_lake

    source = Source(bootstrap, config) if bootstrap is not None else None
    with progress_bar("masking again") as progress:
        outcome = rescrub_lake(
            lake,
            rules,
            keys,
            where,
            reason,
            source,
            progress,
            with_open_runs=with_open_runs,
            is_trial=dry_run,
        )
    _tell(outcome, as_json=as_json, is_trial=dry_run)
    is_complete = outcome.receipt is None or outcome.receipt.is_complete
    if not is_complete or any(each.unexaminable for each in outcome.counts.values()):
        raise typer.Exit(3)


def _tell(outcome: "Outcome", *, as_json: bool, is_trial: bool) -> None:
    from dataclasses import asdict

    import orjson

    counts: dict[str, dict[str, Any]] = {
        table: each.as_dict() for table, each in outcome.counts.items()
    }
    receipt = outcome.receipt
    if as_json:
        found = {"ruleset": outcome.ruleset, "tables": counts, "files": outcome.files}
        found |= {"open_runs": outcome.open_runs, "receipt": asdict(receipt) if receipt else None}
        typer.echo(orjson.dumps(found).decode())
        return
    would = "would be " if is_trial else ""
    for table, each in counts.items():
        typer.echo(
            f"{table}: {each['rows']:,} rows {would}examined, {each['changed']:,} changed, "
            f"{each['held']:,} held, {each['unexaminable']:,} not examinable"
        )
        for rule, count in sorted(each["redactions"].items()):
            typer.echo(f"  {count:,} by {rule}")
    typer.echo(f"{outcome.files:,} files {would}replaced, under {outcome.ruleset}")
    for folder in outcome.open_runs:
        typer.echo(f"left to ingests: open runs in {folder} (see --with-open-runs)", err=True)
    for failure in receipt.failures if receipt else ():
        typer.echo(f"not done: {failure.what}: {failure.message}", err=True)
