"""`redactory verify`: proves that a lake is what its log says."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Adds `verify`."""
    app.command(rich_help_panel="Read")(verify)


def verify(
    lake: Annotated[
        str, typer.Option(envvar="REDACTORY_LAKE", help="Directory or s3:// prefix of the lake.")
    ],
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as an object.")] = False,
) -> None:
    """Prove the lake: log, files and offsets as committed, and no rule finds anything in a row.

    Exit code 1 if something is wrong; what only newer rules find is an advisory.
    """
    from pipeline.lake.showing import print_report, progress_bar, report_as_json
    from pipeline.lake.verify import Checks
    from pipeline.lake.verify import verify as run

    checks = Checks.of(keys=keys, rules=rules, leaks=not structure_only, processes=processes)
    with progress_bar("checking files") as progress:
        report = run(lake, checks, progress)
    if as_json:
        typer.echo(report_as_json(report))
    else:
        print_report(report)
    if report.violations:
        raise typer.Exit(1)
