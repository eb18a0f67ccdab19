"""`redactory query`: SQL over the lake."""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import Lake

SHOWN_ROWS = 100


def register(app: typer.Typer) -> None:
    """Adds `query`."""
    app.command(rich_help_panel="Read")(query)


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT over the views that --tables lists.")] = "",
    lake: Lake = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of row objects.")] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="Print every table, view and column, and end.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header line.")] = False,
    as_arrow: Annotated[
        bool, typer.Option("--arrow", help="Print an Arrow stream, for a program to read.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Write .parquet, .csv or .json; a sweep removes it in time."
        ),
    ] = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", help="Read only this retention class.")
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="What for; some classes demand it. It is written down.")
    ] = None,
) -> None:
    """Ask the lake in SQL (DuckDB); only committed files are read, and nothing is written.

    The retention class and bucket of a row are columns too: retention_class and expires. A file
    written with --to is a copy: it goes with the first of the rows that the query could read.
    """
    import getpass

    from pipeline.errors import UsageError
    from pipeline.lake import open_lake, rendering
    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.query import query as run
    from pipeline.lake.query import query_batches
    from pipeline.retention import access, exports, showing
    from pipeline.retention.copies import copier

    if tables:
        from pipeline.lake.dictionary import dictionary

        typer.echo(dictionary(), nl=False)
        return
    if not (sql and lake):
        raise UsageError("a query needs its SQL and --lake", code="usage", hint="see --help")
    if as_json + as_csv + as_arrow > 1:
        raise UsageError("more than one format was asked for", code="usage", hint="choose one")
    opened = exports.of_classes(open_lake(lake), tuple(classes or ()))
    access.note_read(
        opened, now_us=system_clock_us(), by=getpass.getuser(), command="query", purpose=purpose
    )
    if to is not None:
        copy = exports.export_query(opened, sql, to, copier(opened.store))
        typer.echo(f"copy {copy.number} goes at {showing.time_text(copy.deadline_us)}", err=True)
        return
    if as_arrow:
        rendering.write_arrow(*query_batches(opened, sql), sys.stdout.buffer)
        return
    result = run(opened, sql)
    if as_json or as_csv:
        sys.stdout.writelines((rendering.as_json if as_json else rendering.as_csv)(result))
        return
    _print_table(
        result.columns, [rendering.as_cells(row) for row in islice(result.rows, SHOWN_ROWS + 1)]
    )


def _print_table(columns: tuple[str, ...], rows: list[list[str]]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(*map(escape, columns), box=SIMPLE)
    for row in rows[:SHOWN_ROWS]:
        table.add_row(*map(Text, row))
    Console().print(table)
    if len(rows) > SHOWN_ROWS:
        typer.echo(
            f"only the first {SHOWN_ROWS} rows are shown: --json or --csv prints all", err=True
        )
