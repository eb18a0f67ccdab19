"""`redactory runs`: the records of runs."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import Keys, Lake

if TYPE_CHECKING:
    from pipeline.records.access import Opener

runs_app = typer.Typer(no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PurposeOption = Annotated[
    str | None,
    typer.Option("--purpose", help="What for; some classes demand it. It is written down."),
]


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(runs_app, name="runs", help="List, show and trace runs.", rich_help_panel="Read")


@runs_app.command("list")
def list_command(
    lake: Lake,
    status: Annotated[
        str | None, typer.Option(help="completed, failed, cancelled, finished or abandoned.")
    ] = None,
    incomplete: Annotated[bool, typer.Option("--incomplete", help="Only incomplete runs.")] = False,
    missing: Annotated[
        str | None, typer.Option(help="Only runs that lack this row or field: code, task.trigger.")
    ] = None,
    rule: Annotated[str | None, typer.Option(help="Only runs in which this rule masked.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="How many to pass over first.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """List runs that have ended, the newest first."""
    from pipeline.lake.live import open_lake
    from pipeline.lake.rendering import plain
    from pipeline.records.listing import Filters, list_runs
    from pipeline.records.show import list_lines

    filters = Filters(status, incomplete, missing, rule, limit, offset)
    found = list(list_runs(open_lake(lake), filters))
    if as_json:
        typer.echo(json.dumps(plain(found), ensure_ascii=False, indent=1))
    else:
        typer.echo("\n".join(list_lines(found)))


@runs_app.command()
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")],
    lake: Lake,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page instead.")
    ] = None,
    purpose: PurposeOption = None,
    keys: Keys = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: how complete its record is, its steps, and what of it is gone.

    Sealed content is shown to whoever has its keys. A page written with --html is a copy: the sweep
    removes it with the first of the run's rows.
    """
    from pipeline.lake.rendering import plain
    from pipeline.records.show import run_as_dict, run_lines

    opener, now_us = _opener(lake, "runs show", purpose, keys), time.time_ns() // 1_000
    view = opener.open(run_id)
    if html is not None:
        from pipeline.records.page import page
        from pipeline.retention.copies import copier
        from pipeline.retention.exports import export_page

        opened = opener.lake
        export_page(opened, view.files, page(view, now_us), html, copier(opened.store))
        typer.echo(f"wrote {html}", err=True)
    elif as_json:
        typer.echo(json.dumps(plain(run_as_dict(view, now_us)), ensure_ascii=False))
    else:
        typer.echo("\n".join(run_lines(view, now_us)))


@runs_app.command()
def trace(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")],
    lake: Lake,
    decision: Annotated[
        str | None, typer.Option(help="Event id of a decision (default: the run's last one).")
    ] = None,
    purpose: PurposeOption = None,
    keys: Keys = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a decision back to the task that set it off; exit code 1 where the trace breaks."""
    from pipeline.records.listing import children_of
    from pipeline.records.show import trace_lines
    from pipeline.records.trace import trace as run

    opener, now_us = _opener(lake, "runs trace", purpose, keys), time.time_ns() // 1_000
    view = opener.open(run_id)
    hops = run(view, opener.open, decision, now_us, lambda parent: children_of(opener.lake, parent))
    if as_json:
        typer.echo(json.dumps([hop.as_dict() for hop in hops], ensure_ascii=False, indent=1))
    else:
        typer.echo("\n".join(trace_lines(hops)))
    if not hops[-1].holds:
        raise typer.Exit(1)


def _opener(lake: str, command: str, purpose: str | None, keys: Path | None) -> "Opener":
    import getpass

    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.live import open_lake
    from pipeline.records.access import Opener
    from pipeline.retention.subjects import ring_if_any

    by, ring = getpass.getuser(), ring_if_any(keys)
    return Opener(open_lake(lake), by, command, purpose, system_clock_us, ring)
