"""`redactory rules`: look at the rules that decide what is masked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli import rules_gate, rules_report, rules_versions
from pipeline.cli.options import AsJson, Keys
from pipeline.cli.tables import print_table

if TYPE_CHECKING:
    from pipeline.review.diff import Difference
    from redactors.ruleset import Ruleset

app = typer.Typer(no_args_is_help=True, help="Look at the rules that decide what is masked.")

Source = Annotated[
    Path | None,
    typer.Option("--rules", "-r", help="A YAML file or a directory of them; default: built in."),
]


def register(root: typer.Typer) -> None:
    """Adds `rules` and its commands."""
    rules_gate.register(app)
    rules_versions.register(app)
    rules_report.register(app)
    root.add_typer(app, name="rules", rich_help_panel="Redact")


@app.command()
def check(
    rules: Source = None,
    cost: Annotated[bool, typer.Option("--cost", help="Also say what each pattern costs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look the rules over: examples, patterns, owners, overlaps; exit 1 if anything is wrong."""
    from dataclasses import asdict
    from datetime import date

    import orjson

    from pipeline.review.check import check as checked
    from pipeline.review.check import costs

    report = checked(rules, date.today())
    ruleset = report.ruleset
    kinds = ("rules", "fields", "recognizers") if ruleset is not None else ()
    counts = {kind: len(getattr(ruleset, kind)) for kind in kinds}
    dear = [asdict(each) for each in costs(ruleset)] if cost and ruleset is not None else []
    if as_json:
        found = {"ok": not report.mistakes, "digest": report.digest, **counts}
        found |= {kind: [asdict(r) for r in getattr(report, kind)] for kind in _REMARKS}
        typer.echo(orjson.dumps(found | ({"costs": dear} if cost else {})).decode())
    else:
        for remark in report.overlaps:
            typer.echo(f"overlap: {remark}", err=True)
        if dear:
            print_table(("rule", "ns_per_byte", "hits"), dear)
        for remark in report.mistakes:
            typer.echo(f"failed: {remark}")
        if ruleset is not None and not report.mistakes:
            stated = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            typer.echo(f"{ruleset.name} {ruleset.version}: {stated}, each true to its examples")
            typer.echo(f"digest {report.digest}")
    if report.mistakes:
        raise typer.Exit(1)


_REMARKS = ("mistakes", "overlaps")


@app.command(name="list")
def list_rules(rules: Source = None, as_json: AsJson = False) -> None:
    """List the rules: what each finds and what is done about it."""
    from redactors import load_ruleset

    rows = _rows(load_ruleset(rules))
    columns = ("id", "type", "kind", "label", "action", "mode", "reason")
    if as_json:
        import orjson

        shown = [{column: row[column] for column in columns} for row in rows]
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
        return
    print_table(columns, rows)


@app.command()
def show(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a rule or field rule.")],
    rules: Source = None,
    as_json: AsJson = False,
) -> None:
    """Show one rule in full, as it stands after defaults; its examples stay templates."""
    import orjson
    import yaml

    from pipeline.errors import UsageError
    from redactors import load_ruleset

    row = next((row for row in _rows(load_ruleset(rules)) if row["id"] == rule_id), None)
    if row is None:
        raise UsageError(
            f"there is no rule {rule_id}", code="no-such-rule", hint="redactory rules list"
        )
    if as_json:
        typer.echo(orjson.dumps(row, option=orjson.OPT_INDENT_2).decode())
        return
    typer.echo(yaml.safe_dump(row, sort_keys=False, allow_unicode=True, width=96), nl=False)


@app.command()
def explain(
    payload: Annotated[
        str,
        typer.Argument(
            metavar="TEXT|EVENT", help="A text or a JSON value; - reads standard input."
        ),
    ],
    rules: Source = None,
    keys: Keys = None,
    only: Annotated[
        str | None, typer.Option("--rule", help="Hear about this rule only, whatever it does.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say of each rule that may concern a text why it fired, or why not; no value is printed."""
    import sys
    from dataclasses import asdict

    import orjson

    from pipeline.review.explain import explained

    text = sys.stdin.read() if payload == "-" else payload
    outcomes = [asdict(outcome) for outcome in explained(text, rules, keys, only)]
    if as_json:
        typer.echo(orjson.dumps(outcomes, option=orjson.OPT_INDENT_2).decode())
    else:
        print_table(("rule", "verdict", "because", "field", "count"), outcomes)


Over = Annotated[
    list[Path] | None, typer.Option("--over", help="A file of lines; may be repeated.")
]


@app.command(name="test")
def try_out(rules: Source = None, over: Over = None, as_json: AsJson = False) -> None:
    """Run the rules on their examples and on labelled lines; exit 1 if one is not as it should be.

    A labelled line: {"event" or "text": …, "gone": [what must go], "kept": [what must stay]}.
    `gate` takes the same lines, and what nobody labelled for clean.
    """
    from dataclasses import asdict

    import orjson

    from pipeline.review.trial import try_rules
    from redactors import load_ruleset

    trial = try_rules(load_ruleset(rules), over or [])
    if as_json:
        typer.echo(orjson.dumps(asdict(trial)).decode())
    else:
        for failure in trial.failures:
            typer.echo(f"failed: {failure.place}: {failure.reason}")
        typer.echo(", ".join(f"{count} {sort}" for sort, count in trial.tried.items()))
    if trial.failures:
        raise typer.Exit(1)


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="A file or directory of rules; `default`: built in.")],
    new: Annotated[str, typer.Argument(help="The same.")],
    over: Annotated[
        list[str] | None, typer.Option("--over", help="A file of lines, or a lake; repeatable.")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(envvar="REDACTORY_KEYS", help="Key ring of a lake (yours).")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes for a lake (default: one per core).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two rulesets, also by what they do to lines; exit 1 if anything would newly leak.

    Over a lake, what is masked is judged by what its rows declare, and what stands in clear is
    looked at: each difference counts as often as it is stored.
    """
    from dataclasses import asdict

    import orjson

    from pipeline.review.diff import compare
    from pipeline.review.payloads import examples_of, payloads_of
    from redactors import load_ruleset

    before, after = (load_ruleset(None if p == "default" else Path(p)) for p in (old, new))
    lakes = [each for each in over or () if "://" in each or Path(each).is_dir()]
    files = [Path(each) for each in over or () if each not in lakes]
    difference = compare(before, after, [*examples_of(before), *payloads_of(files)])
    for lake in lakes:
        _compare_over(lake, difference, before, after, keys, processes)
    if as_json:
        typer.echo(orjson.dumps(asdict(difference)).decode())
    else:
        _print_difference(difference)
    if difference.leaks:
        raise typer.Exit(1)


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="Rules of another tool.")],
    source: Annotated[
        str, typer.Option("--from", help="gitleaks, presidio or detect-secrets (a baseline).")
    ],
    owner: Annotated[str, typer.Option("--owner", help="Who answers for the rules.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print a ruleset made of another tool's rules; what is left out is named on standard error."""
    import orjson

    from pipeline.review.importing import import_rules

    imported = import_rules(file, source, owner)
    if as_json:
        found = {"document": imported.document(), "left": imported.left}
        typer.echo(orjson.dumps(found).decode())
        return
    typer.echo(imported.document(), nl=False)
    for sentence in imported.left:
        typer.echo(f"left out: {sentence}", err=True)


def _compare_over(
    lake: str,
    difference: "Difference",
    before: "Ruleset",
    after: "Ruleset",
    keys: Path | None,
    processes: int | None,
) -> None:
    import os

    from pipeline.lake.showing import progress_bar
    from pipeline.review.diff_lake import compare_over_lake, question
    from redactors.keys import default_key_file

    ring = keys or default_key_file()
    asked = question(lake, before, after, ring if keys or ring.exists() else None)
    with progress_bar("comparing files") as progress:
        compare_over_lake(difference, asked, processes or os.cpu_count() or 1, progress)


def _print_difference(difference: "Difference") -> None:
    for word, names in (("added", difference.added), ("removed", difference.removed)):
        for name in names:
            typer.echo(f"{word} {name}")
    for name, keys in difference.changed.items():
        typer.echo(f"changed {name}: {', '.join(keys)}")
    for sort, count in difference.counts.items():
        typer.echo(f"{sort.replace('_', ' ')}: {count}")
        for sample in difference.samples.get(sort, ()):
            how = f"{sample.before or 'as it is'} → {sample.after or 'as it is'}"
            length = "masked" if sample.length is None else f"{sample.length} characters"
            typer.echo(f"  {sample.place}: {length}, {how}")


def _rows(ruleset: "Ruleset") -> list[dict[str, Any]]:
    types = {"rules": "pattern", "fields": "field", "recognizers": "recognizer"}
    return [
        {"type": name, **entry.model_dump(mode="json", exclude_none=True)}
        for kind, name in types.items()
        for entry in getattr(ruleset, kind)
    ]
