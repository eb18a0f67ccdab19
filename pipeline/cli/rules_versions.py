"""`redactory rules history` and `sign`: which rulesets wrote a lake, and which may."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import AsJson


def register(app: typer.Typer) -> None:
    """Adds the commands about versions of rules to `rules`."""
    app.command()(history)
    app.command()(sign)


def history(
    lake: Annotated[
        str,
        typer.Argument(envvar="REDACTORY_LAKE", help="Directory or s3:// prefix of the lake."),
    ],
    document: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Print this ruleset as it is kept; a start will do."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which rulesets wrote the lake: offsets, rows, first and last time, from its commit log.

    What --document prints is a ruleset that `rules diff`, `show` and all the others take.
    """
    from dataclasses import asdict

    import orjson

    from pipeline.lake.store import Store
    from pipeline.review.history import document as kept_document
    from pipeline.review.history import told, versions

    store = Store.open(lake)
    if document is not None:
        typer.echo(kept_document(store, document))
        return
    found = versions(store)
    if as_json:
        shown = [
            {**asdict(v), "rows": v.rows, "first_us": v.first_us, "last_us": v.last_us}
            for v in found
        ]
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
    else:
        for line in told(found):
            typer.echo(line)


def sign(
    rules: Annotated[Path, typer.Argument(help="A YAML file or a directory of them.")],
    key: Annotated[Path, typer.Option("--key", help="Ed25519 private key, PEM (PKCS#8).")],
) -> None:
    """Print the signature of rules that are true to their examples; it lies beside them as .sig.

    `ingest --rules-public-key` takes no rules without it. Comments and layout may change later.
    """
    from redactors import load_ruleset
    from redactors.signatures import sign as signature_of

    documents: list[bytes] = []
    load_ruleset(rules, accept=documents.append)
    typer.echo(signature_of(documents[0], key))
