"""`redactory rules history`, `sign`, `shadow`: which rulesets wrote a lake, may, and would."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import AsJson

LakePlace = Annotated[
    str, typer.Argument(envvar="REDACTORY_LAKE", help="Directory or s3:// prefix of the lake.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands about versions of rules to `rules`."""
    app.command()(history)
    app.command()(sign)
    app.command()(shadow)


def history(
    lake: LakePlace,
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


def shadow(lake: LakePlace, as_json: AsJson = False) -> None:
    """Say what rules with `mode: shadow` would have masked of what the other rules left.

    Counts and masked samples stand in the log's entries, and go when the log is cut.
    """
    from dataclasses import asdict

    import orjson

    from pipeline.lake.store import Store
    from pipeline.review.shadow import trials

    found = trials(Store.open(lake))
    if as_json:
        shown = [asdict(trial) for trial in found]
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
        return
    for trial in found:
        typer.echo(f"{trial.rule}: {trial.count:,} times under {trial.ruleset[:12]}")
        for sample in trial.samples:
            typer.echo(f"  {sample}")
