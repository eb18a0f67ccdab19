"""The two-sided gate: planted values must go, clean ones must stay, and each rule has its score."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from redaction_samples import aws_key, email, rule, small_ruleset
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.review.gate import Verdict, judge
from pipeline.review.generated import corpus
from pipeline.review.labelled import rows_of
from redactors import Ruleset, load_ruleset
from redactors.ruleset import Allow, Rule
from redactors.templates import expand

OURS = rule("ours", "ours_[a-z]{8}", matches=("ours_{{lower:8}}",))
RULES = small_ruleset(OURS)


def without_fields(*rules: Rule, **changes: object) -> Ruleset:
    """The small ruleset without its fields, which go by the names of built-in ones."""
    return small_ruleset(*rules, **changes).model_copy(update={"fields": ()})


def judged(folder: Path, *lines: dict[str, Any], ruleset: Ruleset = RULES) -> Verdict:
    path = folder / "labelled.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return judge(ruleset, rows_of([path]))


def failed(verdict: Verdict) -> list[tuple[str, str, str, int]]:
    return [(f.sort, f.place.rpartition(":")[2], f.rule, f.length) for f in verdict.failures]


def test_what_is_planted_goes_and_all_else_stays(tmp_path: Path) -> None:
    key = aws_key()
    verdict = judged(
        tmp_path,
        {"text": f"key {key} for 4711", "gone": [{"value": key, "rule": "aws-key"}]},
        {"text": f"key {key}", "gone": [{"span": [4, 24], "rule": "aws-key"}], "kept": ["key "]},
        {"event": {"a": json.dumps({"b": f"{key}\n"})}, "gone": [key]},
        {"event": {"data": base64.b64encode(f"the key is {key} here".encode()).decode()},
         "gone": [{"value": key, "rule": "aws-key"}]},
        {"event": {"id": "r-17", "said": "nothing"}},
    )  # fmt: skip
    assert verdict.failures == []
    score = verdict.scores["aws-key"]
    assert (score.planted, score.found, score.hits, score.right) == (3, 3, 4, 4)
    assert (score.recall, score.precision) == (1.0, 1.0)


def test_what_survives_is_a_leak_of_the_rule_that_answers_for_it(tmp_path: Path) -> None:
    block = "theirs\nover two lines"
    verdict = judged(
        tmp_path,
        {"event": {"a": f"so {block}"}, "gone": [{"value": block, "rule": "aws-key"}]},
        {"text": f"{aws_key()} and {aws_key(2)[:-1]}!", "gone": [aws_key(), aws_key(2)[:-1]]},
    )
    assert failed(verdict) == [("leak", "1", "aws-key", len(block)), ("leak", "2", "", 19)]
    assert verdict.scores["aws-key"].recall == 0.0


def test_what_is_changed_besides_is_an_over_redaction(tmp_path: Path) -> None:
    verdict = judged(
        tmp_path,
        {"text": f"write to {email()}"},
        {"text": f"write to {email()}", "kept": ["write to ", email()]},
        {"text": f"{aws_key()}, {email()}", "gone": [aws_key()]},
        {"text": f"{aws_key()}, {email()}", "gone": [aws_key()], "partial": True},
    )
    size = len(email())
    assert failed(verdict) == [
        ("over-redaction", "1", "email", size),
        ("over-redaction", "2", "", size),
        ("over-redaction", "2", "email", size),
        ("over-redaction", "3", "email", size),
    ]
    assert verdict.scores["email"].precision == 0.0
    assert verdict.scores["aws-key"].precision == 1.0


def test_what_cannot_be_examined_fails(tmp_path: Path) -> None:
    dense = small_ruleset(rule("any", "[a-z]"))
    assert failed(judged(tmp_path, {"text": "x" * 100_000}, ruleset=dense)) == [
        ("unexaminable", "1", "", 100_000)
    ]


@pytest.mark.parametrize(
    "line",
    [
        {"text": "x", "event": {}},
        {"text": "x", "gone": ["y"]},
        {"text": "x", "kept": ["y"]},
        {"text": "x", "gone": [{"span": [0, 2]}]},
        {"event": {"a": "x"}, "gone": [{"span": [0, 1]}]},
        {"text": "x", "gone": [{"rule": "r"}]},
        {"text": "x", "left": []},
    ],
)
def test_a_line_that_says_what_cannot_be_is_named(tmp_path: Path, line: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"labelled\.jsonl:2 "):
        judged(tmp_path, {"text": "x"}, line)


def test_the_built_in_rules_pass_a_corpus_of_their_own() -> None:
    rows = list(corpus(load_ruleset(), 1))
    verdict = judge(load_ruleset(), rows)
    assert verdict.failures == []
    named = {planted.rule for row in rows for planted in row.planted}
    with_examples = {
        each.id
        for each in (*load_ruleset().rules, *load_ruleset().fields)
        if each.matches and each.action != "keep"
    }
    assert named == with_examples
    assert sum(not row.planted for row in rows) == 600


def test_a_corpus_follows_its_seed() -> None:
    first, again, other = (list(corpus(RULES, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_an_allowance_that_covers_a_rule_leaks() -> None:
    ruleset = without_fields(OURS, allow=(Allow(pattern="ours_[a-z]+", reason="r"),))
    verdict = judge(ruleset, corpus(ruleset, 1))
    assert {(f.sort, f.rule) for f in verdict.failures} == {("leak", "ours")}
    assert verdict.scores["ours"].recall == 0.0


def test_a_rule_that_takes_a_built_in_ones_place_must_find_what_that_finds() -> None:
    narrow = rule("github-token", "ghp_x[a-z]{8}", matches=("ghp_x{{lower:8}}",))
    ruleset = without_fields(narrow)
    verdict = judge(ruleset, corpus(ruleset, 1))
    assert {(f.sort, f.rule) for f in verdict.failures} == {("leak", "github-token")}


def test_a_rule_that_takes_identifiers_is_not_precise() -> None:
    ruleset = without_fields(rule("hex", r"\b[0-9a-f]{40}\b", matches=("{{hex:40}}",)))
    verdict = judge(ruleset, corpus(ruleset, 1))
    assert {f.sort for f in verdict.failures} == {"over-redaction"}
    score = verdict.scores["hex"]
    assert score.recall == 1.0 and score.precision is not None and score.precision < 1


RULES_FILE = """name: ours
version: "1"
rules:
  - {id: ours, kind: secret, label: SECRET, pattern: 'ours_[a-z]{8}', reason: r, owner: o,
     matches: ['ours_{{lower:8}}']}
"""


def test_the_command_tells_failures_without_values(tmp_path: Path) -> None:
    rules, labelled = tmp_path / "ours.yaml", tmp_path / "labelled.jsonl"
    rules.write_text(RULES_FILE)
    value = expand("theirs_{{lower:8}}")
    line = {"text": f"see {value}", "gone": [{"value": value, "rule": "ours"}]}
    labelled.write_text(json.dumps(line))
    words = ["rules", "gate", "--rules", str(rules)]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "0 leaks, 0 over-redactions" in result.stdout) == (0, True)
    result = CliRunner().invoke(app, [*words, "--corpus", str(labelled)])
    assert result.exit_code == 1
    assert f"leak: {labelled}:1: {len(value)} characters by ours" in result.stdout
    assert "0.0 %" in result.stdout
    shown = CliRunner().invoke(app, [*words, "--corpus", str(labelled), "--json"])
    found = json.loads(shown.stdout)
    assert (found["ok"], found["scores"]["ours"]["recall"]) == (False, 0.0)
    assert value not in result.output + shown.output
