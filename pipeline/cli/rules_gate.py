"""`redactory rules gate`: what a CI job asks of a ruleset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.options import AsJson, Rules
from pipeline.cli.tables import print_table

if TYPE_CHECKING:
    from pipeline.review.gate import Verdict

SHOWN = 20
"""Failures that are printed; --json has all."""


def register(app: typer.Typer) -> None:
    """Adds `gate` to `rules`."""
    app.command()(gate)


def gate(
    rules: Rules = None,
    corpus: Annotated[
        list[Path] | None, typer.Option(help="A labelled file; may be repeated.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Of the corpus that is made where no file is given.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Fail (exit 1) where a planted value survives the rules or a clean one is changed.

    Lines of labelled files are {"event" or "text": …, "gone": [PLANTED], "kept": [values]}; PLANTED
    is a value, {"value": …, "rule": ID} or, in a text, {"span": [start, end], "rule": ID}. All else
    in it is clean; with "partial": true nothing is said of the rest.
    """
    from dataclasses import asdict

    import orjson

    from pipeline.review.gate import judge
    from pipeline.review.generated import corpus as generated
    from pipeline.review.labelled import rows_of
    from redactors import load_ruleset

    ruleset = load_ruleset(rules)
    verdict = judge(ruleset, rows_of(corpus) if corpus else generated(ruleset, seed))
    if as_json:
        scores = {
            rule: asdict(score) | {"recall": score.recall, "precision": score.precision}
            for rule, score in sorted(verdict.scores.items())
        }
        found = {"ok": not verdict.failures, **asdict(verdict), "scores": scores}
        typer.echo(orjson.dumps(found).decode())
    else:
        _print(verdict)
    if verdict.failures:
        raise typer.Exit(1)


def _print(verdict: "Verdict") -> None:
    imperfect = [
        {"rule": rule, "recall": _percent(score.recall), "precision": _percent(score.precision)}
        for rule, score in sorted(verdict.scores.items())
        if not score.is_perfect
    ]
    for failure in verdict.failures[:SHOWN]:
        rule = f" by {failure.rule}" if failure.rule else ""
        typer.echo(f"{failure.sort}: {failure.place}: {failure.length} characters{rule}")
    if len(verdict.failures) > SHOWN:
        typer.echo(f"… and {len(verdict.failures) - SHOWN} more (--json has all)")
    if imperfect:
        print_table(("rule", "recall", "precision"), imperfect)
    typer.echo(
        f"{verdict.rows:,} payloads, {verdict.planted:,} planted values: "
        f"{verdict.count('leak'):,} leaks, {verdict.count('over-redaction'):,} over-redactions, "
        f"{verdict.count('unexaminable'):,} not examinable"
    )


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.1f} %"
