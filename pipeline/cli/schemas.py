"""`redactory schemas`: what a schema registry holds, and what may be put there."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import AsJson, RegistryFile, RegistryUrl

schemas_app = typer.Typer(no_args_is_help=True)

Subject = Annotated[str, typer.Option(help="Subject, as a rule <topic>-value.")]

SchemaFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="Avro (.avsc) or JSON Schema (.json); none: the one that events are emitted with.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command group to the root."""
    app.add_typer(
        schemas_app,
        name="schemas",
        help="Look at a schema registry, check and register schemas.",
        rich_help_panel="Operate",
    )


@schemas_app.command("list")
def list_(
    registry: RegistryUrl, registry_config: RegistryFile = None, as_json: AsJson = False
) -> None:
    """List the subjects, each with its latest version and whether its events can be read here."""
    from pipeline.registry.client import open_registry
    from pipeline.registry.judging import unfit

    opened = open_registry(registry, registry_config)
    found = [latest for each in opened.subjects() if (latest := opened.version(each))]
    rows = [
        {
            "subject": each.subject,
            "version": each.version,
            "id": each.schema_id,
            "type": each.kind,
            "is_read": not unfit(each.text, each.kind),
        }
        for each in found
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        read = "run events" if row["is_read"] else "not run events"
        typer.echo(f"{row['subject']}  {row['version']}  id {row['id']}  {row['type']}  {read}")


@schemas_app.command()
def show(
    subject: Annotated[str, typer.Argument(help="Subject.", show_default=False)],
    registry: RegistryUrl,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version (default: the latest).", show_default=False)
    ] = None,
    registry_config: RegistryFile = None,
    as_json: AsJson = False,
) -> None:
    """Print a version of a subject as it stands in the registry."""
    from pipeline.errors import UsageError
    from pipeline.registry.client import open_registry

    opened = open_registry(registry, registry_config)
    found = opened.version(subject, version)
    if found is None:
        raise UsageError(
            f"the registry has no {'such ' if version else ''}version of {subject}",
            code="no-version",
            hint="redactory schemas list has all subjects",
        )
    if as_json:
        told = {
            "subject": subject,
            "version": found.version,
            "versions": opened.versions(subject),
            "id": found.schema_id,
            "type": found.kind,
            "schema": found.text,
        }
        typer.echo(json.dumps(told))
    else:
        typer.echo(found.text)


@schemas_app.command()
def check(
    subject: Subject,
    registry: RegistryUrl,
    file: SchemaFile = None,
    registry_config: RegistryFile = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a schema may be the next version of a subject; nothing is registered.

    It may if the registry's own rule for the subject allows it, and if Redactory can read run
    events that are written with it. Exit code 1 if it may not.
    """
    from pipeline.registry.client import open_registry
    from pipeline.registry.judging import Candidate, problems

    found = problems(open_registry(registry, registry_config), subject, Candidate.of(file))
    if as_json:
        typer.echo(json.dumps({"subject": subject, "ok": not found, "problems": found}))
    else:
        typer.echo(_lines(subject, found))
    if found:
        raise typer.Exit(1)


@schemas_app.command("register")
def register_(
    subject: Subject,
    registry: RegistryUrl,
    file: SchemaFile = None,
    registry_config: RegistryFile = None,
    as_json: AsJson = False,
) -> None:
    """Make a schema the next version of a subject, if `check` finds nothing against it.

    One that is there already keeps its id. Exit code 1 if it may not be: nothing is registered.
    """
    from pipeline.registry.client import open_registry
    from pipeline.registry.judging import Candidate, problems

    opened, candidate = open_registry(registry, registry_config), Candidate.of(file)
    found = problems(opened, subject, candidate)
    schema_id = None if found else opened.register(subject, candidate.text, candidate.kind)
    if as_json:
        typer.echo(json.dumps({"subject": subject, "id": schema_id, "problems": found}))
    elif found:
        typer.echo(_lines(subject, found))
    else:
        typer.echo(f"{subject}: registered as id {schema_id}")
    if found:
        raise typer.Exit(1)


def _lines(subject: str, problems: Sequence[str]) -> str:
    return "\n".join(f"{subject}: {each}" for each in problems or ["nothing is against it"])
