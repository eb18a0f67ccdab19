"""What another ruleset would do to the same payloads, and whether rules do what they should."""

import json
from pathlib import Path

import pytest
from redaction_samples import aws_key, card, email, field, password, rule, small_ruleset
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.review.diff import MAX_SAMPLES, Difference, compare
from pipeline.review.payloads import Payload, examples_of, payloads_of
from pipeline.review.trial import try_rules
from redactors import Ruleset
from redactors.templates import expand

OLD = small_ruleset()


def without(*ids: str) -> Ruleset:
    return OLD.model_copy(
        update={
            "rules": tuple(each for each in OLD.rules if each.id not in ids),
            "fields": tuple(each for each in OLD.fields if each.id not in ids),
        }
    )


def compared(new: Ruleset, *texts: str) -> Difference:
    return compare(OLD, new, [Payload("here", text, text[0] == "{") for text in texts])


def counts(difference: Difference) -> tuple[int, ...]:
    return tuple(difference.counts.values())


def test_the_same_rules_make_no_difference() -> None:
    found = compared(OLD, f"mail {email()}", json.dumps({"password": password(), "n": card()}))
    assert (found.added, found.removed, found.changed) == ([], [], {})
    assert counts(found) == (0, 0, 0, 0, 0)


def test_rules_that_came_went_and_changed_are_named() -> None:
    hashed = rule("card", r"\b\d{16}\b", kind="pii", label="CARD", validator="luhn")
    new = without("email", "card")
    new = new.model_copy(update={"rules": (*new.rules, hashed, rule("more", "more_[a-z]{8}"))})
    found = compared(new)
    assert (found.added, found.removed) == (["rules/more"], ["rules/email"])
    assert found.changed == {"rules/card": ["pattern"]}


def test_what_a_missing_rule_leaves_is_a_leak_and_not_shown() -> None:
    found = compared(without("aws-key"), f"key {aws_key()} end", json.dumps({"a": aws_key(2)}))
    assert counts(found) == (0, 2, 0, 0, 0)
    assert found.leaks
    sample = found.samples["no_longer_masked"][0]
    assert (sample.place, sample.length, sample.after) == ("here", 20, "")
    assert sample.before == "aws-key: mask as SECRET"
    assert aws_key() not in repr(found)


def test_a_secret_of_which_a_part_is_left_is_a_leak() -> None:
    shorter = rule("aws-key", r"\b(?:AKIA|ASIA)[A-Z2-7]{8}")
    new = without("aws-key")
    new = new.model_copy(update={"rules": (shorter, *new.rules)})
    assert compared(new, f"key {aws_key()} end").counts["no_longer_masked"] == 1


def test_what_only_the_new_rules_mask_is_newly_masked_and_no_leak() -> None:
    new = small_ruleset(rule("more", "more_[a-z]{8}"))
    found = compared(new, "see more_abcdefgh")
    assert counts(found) == (1, 0, 0, 0, 0)
    assert not found.leaks


def test_another_label_or_action_masks_differently() -> None:
    renamed = rule("aws-key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b", label="CLOUD_KEY")
    new = without("aws-key")
    new = new.model_copy(update={"rules": (renamed, *new.rules)})
    assert counts(compared(new, f"key {aws_key()} end")) == (0, 0, 1, 0, 0)


def test_a_secret_left_inside_base64_is_a_leak() -> None:
    text = f"see {expand('{{base64of:key ' + aws_key() + ' and mail ' + email() + '}}')} there"
    found = compared(without("aws-key"), text)
    assert found.counts["no_longer_masked"] == 1


def test_a_field_that_is_no_longer_known_leaks() -> None:
    event = json.dumps({"lastname": "Featherstonehaugh"})
    assert compared(without("field-name"), event).leaks


def test_what_cannot_be_examined_is_counted() -> None:
    assert counts(compare(OLD, OLD, [Payload("here", "{", True)])) == (0, 0, 0, 0, 1)


def test_only_some_samples_are_kept_but_all_are_counted() -> None:
    texts = [f"key {aws_key(seed)}" for seed in range(MAX_SAMPLES + 3)]
    found = compared(without("aws-key"), *texts)
    assert found.counts["no_longer_masked"] == MAX_SAMPLES + 3
    assert len(found.samples["no_longer_masked"]) == MAX_SAMPLES


def test_payloads_are_lines_and_examples(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text('{"a": 1}\n\nplain {\n')
    assert [(p.place[-2:], p.is_event) for p in payloads_of([path])] == [
        (":1", True),
        (":3", False),
    ]
    ruleset = small_ruleset(
        rule("ours", "ours_[a-z]{8}", matches=("ours_{{lower:8}}",)),
        field("badge", "badge", matches=("badge: 4711",)),
    )
    examples = list(examples_of(ruleset))
    assert examples[-1] == Payload("badge, example 1", '{"badge":"4711"}', True)
    assert [p.is_event for p in examples] == [False, True]


RULES = """
name: ours
version: "1"
rules:
  - {id: ours, kind: secret, label: SECRET, pattern: 'ours_[a-z]{8}', reason: r, owner: o,
     matches: ['ours_{{lower:8}}'], rejects: ['ours_short']}
"""


def test_the_command_compares_and_says_with_its_exit_code_that_something_leaks(
    tmp_path: Path,
) -> None:
    old, new, lines = (tmp_path / name for name in ("old.yaml", "new.yaml", "lines"))
    old.write_text(RULES)
    new.write_text(RULES.replace("ours_", "mine_").replace("id: ours", "id: mine"))
    lines.write_text("see ours_abcdefgh\nsee mine_abcdefgh\n")
    arguments = ["rules", "diff", str(old), str(new), "--over", str(lines)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "no longer masked: 2" in result.stdout
    assert "newly masked: 1" in result.stdout
    assert "removed rules/ours" in result.stdout
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert found["counts"]["no_longer_masked"] == 2
    assert CliRunner().invoke(app, ["rules", "diff", str(old), str(old)]).exit_code == 0


def test_examples_and_labelled_lines_are_tried(tmp_path: Path) -> None:
    path, corpus = tmp_path / "rules.yaml", tmp_path / "corpus.jsonl"
    path.write_text(RULES)
    right = {"text": "see ours_abcdefgh end", "gone": ["ours_abcdefgh"], "kept": ["see ", " end"]}
    leak = {"event": {"a": "theirs_abcdefgh"}, "gone": ["theirs_abcdefgh"]}
    over = {"event": {"a": "ours_abcdefgh"}, "kept": ["ours_abcdefgh"]}
    corpus.write_text("\n".join(map(json.dumps, (right, leak, over))))
    arguments = ["rules", "test", "--rules", str(path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    result = CliRunner().invoke(app, [*arguments, "--over", str(corpus), "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["tried"] == {"positives": 1, "negatives": 1, "corpus": 3}
    assert [(f["place"][-2:], f["reason"]) for f in found["failures"]] == [
        (":2", "1 of `gone` left, 0 of `kept` changed"),
        (":3", "0 of `gone` left, 1 of `kept` changed"),
    ]
    assert "theirs" not in result.stdout


def test_an_example_that_an_allowance_keeps_fails(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES + "allow: [{pattern: 'ours_[a-z]*', reason: r}]\n")
    result = CliRunner().invoke(app, ["rules", "test", "--rules", str(path)])
    assert result.exit_code == 1
    assert "failed: ours: nothing in 'ours_{{lower:8}}' is masked" in result.stdout


def test_a_line_that_is_not_labelled_is_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(UsageError, match="corpus"):
        try_rules(OLD, [path])
