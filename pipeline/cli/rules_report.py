"""`redactory rules report`: the page on which security reviews the rules."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import Lake, Rules


def register(app: typer.Typer) -> None:
    """Adds the command to `rules`."""
    app.command()(report)


def report(
    lake: Lake,
    html: Annotated[Path, typer.Option("--html", help="Write the page to this new file.")],
    rules: Rules = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="The ruleset of the last review, kept in the lake."),
    ] = None,
    chosen: Annotated[
        list[str] | None, typer.Option("--class", help="Only this retention class; repeatable.")
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="What for; classes may demand one that they allow.")
    ] = None,
) -> None:
    """Write one page about the rules: what each masks, where and when, and what none looks at.

    It shows masks in their surroundings, and is therefore a copy: the sweep removes it with the
    first of the rows that it shows. Sealed content is not read.
    """
    import getpass

    from pipeline.lake.commits import system_clock_us
    from pipeline.lake.live import open_lake
    from pipeline.lake.showing import progress_bar
    from pipeline.retention.access import note_read
    from pipeline.retention.copies import copier
    from pipeline.retention.exports import export_page, of_classes
    from pipeline.review.report.page import page
    from pipeline.review.report.review import review
    from redactors import load_ruleset

    opened, now_us = of_classes(open_lake(lake), tuple(chosen or ())), system_clock_us()
    note_read(opened, now_us=now_us, by=getpass.getuser(), command="rules report", purpose=purpose)
    with progress_bar("looking through events") as progress:
        found = review(opened, load_ruleset(rules), since, now_us, progress)
    export_page(opened, found.survey.excerpt_files, page(found), html, copier(opened.store))
    typer.echo(f"wrote {html}", err=True)
