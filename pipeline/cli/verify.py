"""`redactory verify`: proves that a lake is what its log says."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import ClientFile, Lake, micros
from pipeline.errors import UsageError

if TYPE_CHECKING:
    from pipeline.lake.proof.topic import Source
    from pipeline.lake.proof.window import Window


def register(app: typer.Typer) -> None:
    """Adds `verify`."""
    app.command(rich_help_panel="Read")(verify)


def verify(
    lake: Lake,
    rules: Annotated[
        Path | None, typer.Option(help="Newer rules to try, advisory (default: the built-in ones).")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(envvar="REDACTORY_KEYS", help="Key ring (default: yours).")
    ] = None,
    structure_only: Annotated[
        bool, typer.Option("--structure-only", help="Leave the rules out: much faster.")
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes (default: one per core).")
    ] = None,
    against_topic: Annotated[
        bool, typer.Option("--against-topic", help="Compare with what the topic still has.")
    ] = False,
    bootstrap: Annotated[
        str | None, typer.Option(help="Brokers, host:port[,host:port], for --against-topic.")
    ] = None,
    config: ClientFile = None,
    receipt: Annotated[
        Path | None,
        typer.Option(help="Write a signed receipt to this new file; keep it apart from the lake."),
    ] = None,
    since: Annotated[
        Path | None, typer.Option(help="Prove too that the lake continues this earlier receipt.")
    ] = None,
    start: Annotated[
        datetime | None, typer.Option("--from", help="Rows of slices read from here on (UTC).")
    ] = None,
    until: Annotated[datetime | None, typer.Option(help="… and before this (UTC).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as an object.")] = False,
) -> None:
    """Prove the lake: log, files and offsets as committed, and no rule finds anything in a row.

    Exit code 1 if something is wrong; what only newer rules find is an advisory.  Receipts are
    signed under the key ring: one that was changed gives 1, one under an unknown key 3.  With
    --from and --until the whole log is proved, and the rows of that time alone.
    """
    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.proof.receipt import check_new, load_receipt, save_receipt
    from pipeline.lake.showing import print_report, progress_bar, report_as_json
    from pipeline.lake.verify import Checks
    from pipeline.lake.verify import verify as run
    from pipeline.records.proof import check_states
    from redactors.keys import KeyRing, default_key_file

    checks = Checks.of(
        keys=keys,
        rules=rules,
        leaks=not structure_only,
        processes=processes,
        topic=_source(bootstrap, config, against_topic),
        window=_window(start, until, is_whole=against_topic or receipt is not None),
    )
    ring = KeyRing.load(keys or default_key_file()) if receipt or since else None
    earlier = load_receipt(since, ring) if since and ring else None
    if receipt:
        check_new(receipt)
    with progress_bar("checking files") as progress:
        report = run(lake, checks, progress, earlier, check_states)
    if as_json:
        typer.echo(report_as_json(report))
    else:
        print_report(report)
    if receipt and ring:
        save_receipt(receipt, report, ring, system_clock_us(), with_rules=not structure_only)
    if report.violations:
        raise typer.Exit(1)


def _source(bootstrap: str | None, config: Path | None, against_topic: bool) -> "Source | None":
    from pipeline.lake.proof.topic import Source

    if against_topic != (bootstrap is not None):
        raise UsageError(
            "--against-topic and --bootstrap go together", code="usage", hint="give both or none"
        )
    return Source(bootstrap, config) if bootstrap is not None else None


def _window(start: datetime | None, until: datetime | None, *, is_whole: bool) -> "Window | None":
    from pipeline.lake.proof.window import Window

    if start is None and until is None:
        return None
    if is_whole:
        raise UsageError(
            "--from and --until go with neither --receipt nor --against-topic",
            code="usage",
            hint="prove the whole lake for these",
        )
    return Window(micros(start), micros(until))
