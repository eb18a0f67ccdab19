"""`redactory runs`: the records of runs."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.lake.live import Lake

runs_app = typer.Typer(no_args_is_help=True)

LakeOption = Annotated[
    str, typer.Option("--lake", envvar="REDACTORY_LAKE", help="Directory or s3:// prefix.")
]
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
    lake: LakeOption,
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
    lake: LakeOption,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page instead.")
    ] = None,
    purpose: PurposeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: how complete its record is, and its steps.

    A page written with --html is a copy: the sweep removes it with the first of the run's rows.
    """
    from pipeline.lake.live import open_lake
    from pipeline.lake.rendering import plain
    from pipeline.records.reading import read_run
    from pipeline.records.show import run_as_dict, run_lines

    opened, now_us = open_lake(lake), time.time_ns() // 1_000
    _note_read(opened, "runs show", run_id, purpose, now_us)
    view = read_run(opened, run_id)
    if html is not None:
        from pipeline.records.page import page

        _export(opened, html, page(view, now_us))
        typer.echo(f"wrote {html}", err=True)
    elif as_json:
        typer.echo(json.dumps(plain(run_as_dict(view, now_us)), ensure_ascii=False))
    else:
        typer.echo("\n".join(run_lines(view, now_us)))


@runs_app.command()
def trace(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")],
    lake: LakeOption,
    decision: Annotated[
        str | None, typer.Option(help="Event id of a decision (default: the run's last one).")
    ] = None,
    purpose: PurposeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a decision back to the task that set it off; exit code 1 where the trace breaks."""
    from pipeline.lake.live import open_lake
    from pipeline.records.reading import read_run
    from pipeline.records.show import trace_lines
    from pipeline.records.trace import trace as run

    opened, now_us = open_lake(lake), time.time_ns() // 1_000
    _note_read(opened, "runs trace", run_id, purpose, now_us)
    view = read_run(opened, run_id)
    hops = run(view, lambda other: read_run(opened, other), decision, now_us)
    if as_json:
        typer.echo(json.dumps([hop.as_dict() for hop in hops], ensure_ascii=False, indent=1))
    else:
        typer.echo("\n".join(trace_lines(hops)))
    if not hops[-1].holds:
        raise typer.Exit(1)


def _note_read(lake: "Lake", command: str, run_id: str, purpose: str | None, now_us: int) -> None:
    import getpass

    from pipeline.retention.access import note_read

    by = getpass.getuser()
    note_read(lake, now_us=now_us, by=by, command=command, purpose=purpose, run=run_id)


def _export(lake: "Lake", path: Path, page: str) -> None:
    import getpass
    import platform

    from pipeline.lake.commits import system_clock_us
    from pipeline.retention.copies import Copier, first_deadline_us

    deadline_us = first_deadline_us(file for files in lake.files.values() for file in files)
    copier = Copier(lake.store, getpass.getuser(), platform.node(), system_clock_us)
    copier.export(path, "html", deadline_us or 0, lambda file: file.write(page.encode()))
