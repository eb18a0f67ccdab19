"""`redactory rules`: check, list and show."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from redactors import load_ruleset

BAD = """
name: ours
version: "1"
rules:
  - {id: a, kind: secret, label: SECRET, pattern: 'x', reason: r, owner: o, matches: ['y']}
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["rules", *arguments])
    return result.exit_code, result.stdout


def test_the_built_in_rules_pass_their_check() -> None:
    code, printed = run("check", "--json", "--cost")
    assert code == 0
    found = json.loads(printed)
    assert found["ok"]
    assert found["rules"] == len(load_ruleset().rules)
    assert len(found["digest"]) == 64
    assert {cost["rule"] for cost in found["costs"]} == {rule.id for rule in load_ruleset().rules}


def test_a_rule_that_fails_its_examples_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(BAD)
    code, printed = run("check", "--rules", str(path), "--json")
    assert code == 1
    found = json.loads(printed)
    (mistake,) = found["mistakes"]
    assert (found["ok"], mistake["source"], mistake["line"]) == (False, str(path), 5)
    assert run("check", "--rules", str(path))[1].startswith("failed: ")


def test_the_list_names_every_rule_and_field() -> None:
    listed = json.loads(run("list", "--json")[1])
    ruleset = load_ruleset()
    assert [row["id"] for row in listed] == [r.id for r in (*ruleset.rules, *ruleset.fields)]
    assert "github-token" in run("list")[1]


def test_a_rule_is_shown_in_full_with_templates_for_examples() -> None:
    shown = json.loads(run("show", "github-token", "--json")[1])
    assert shown["type"] == "pattern"
    assert any("{{github:ghp_}}" in template for template in shown["matches"])
    assert "pattern:" in run("show", "github-token")[1]


def test_a_rule_nobody_knows_is_wrong_usage() -> None:
    result = CliRunner().invoke(app, ["rules", "show", "no-such-rule"])
    assert isinstance(result.exception, UsageError)
    with pytest.raises(UsageError, match="no-such-rule"):
        raise result.exception


def test_an_event_is_explained_without_its_values(tmp_path: Path) -> None:
    keys = ("--keys", str(tmp_path / "keys"))
    code, printed = run("explain", '{"note": "jane@example.com"}', "--json", *keys)
    assert code == 0
    found = json.loads(printed)
    assert [(row["rule"], row["verdict"], row["field"]) for row in found] == [
        ("email", "fired", "/note")
    ]
    assert "jane" not in printed
    result = CliRunner().invoke(app, ["rules", "explain", "-", *keys], input="jane@example.com")
    assert result.exit_code == 0
    assert "fired" in result.stdout


def test_one_rule_is_explained_though_it_does_nothing(tmp_path: Path) -> None:
    keys = ("--keys", str(tmp_path / "keys"))
    printed = run("explain", "nothing here", "--rule", "email", "--json", *keys)[1]
    assert json.loads(printed)[0]["verdict"] == "no-match"
    result = CliRunner().invoke(app, ["rules", "explain", "x", "--rule", "emial", *keys])
    assert isinstance(result.exception, UsageError)
