"""Loading rulesets: strict YAML, mistakes named by file and line, rules proved by examples."""

from datetime import date
from pathlib import Path

import pytest

from redactors import RulesetError, load_ruleset, parse_document, ruleset_digest, ruleset_document
from redactors.ruleset import Ruleset

HEAD = 'name: ours\nversion: "1"\n'
RULE = """
rules:
  - id: our-key
    kind: secret
    label: SECRET
    pattern: 'ours_[a-z0-9]{20}'
    reason: a key of ours
    owner: security
    matches: ['ours_{{alnum:20}}']
    rejects: ['ours_short']
"""


def write(folder: Path, text: str, name: str = "rules.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(path: Path) -> RulesetError:
    with pytest.raises(RulesetError) as caught:
        load_ruleset(path)
    return caught.value


def test_a_file_of_rules_loads(tmp_path: Path) -> None:
    ruleset = load_ruleset(write(tmp_path, HEAD + RULE))
    assert (ruleset.name, [rule.id for rule in ruleset.rules]) == ("ours", ["our-key"])


def test_the_files_of_a_directory_are_one_ruleset(tmp_path: Path) -> None:
    write(tmp_path, HEAD, "a.yaml")
    write(tmp_path, RULE, "b.yaml")
    assert [rule.id for rule in load_ruleset(tmp_path).rules] == ["our-key"]


def test_two_files_that_both_name_the_ruleset_are_refused(tmp_path: Path) -> None:
    write(tmp_path, HEAD, "a.yaml")
    write(tmp_path, HEAD + RULE, "b.yaml")
    assert "exactly one file" in refused(tmp_path).reason


def test_defaults_of_a_file_fill_in_what_its_rules_leave_out(tmp_path: Path) -> None:
    text = HEAD + "defaults: {owner: payments}\n" + RULE.replace("    owner: security\n", "")
    assert load_ruleset(write(tmp_path, text)).rules[0].owner == "payments"


def test_an_unknown_key_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + RULE + "    colour: red\n")
    error = refused(path)
    assert (error.source, error.line) == (str(path), 13)
    assert "our-key" in error.reason


def test_an_unknown_key_of_the_file_is_refused(tmp_path: Path) -> None:
    error = refused(write(tmp_path, HEAD + "colour: red\n"))
    assert error.line == 3
    assert "'colour'" in error.reason


def test_an_id_given_twice_is_refused_and_both_places_are_named(tmp_path: Path) -> None:
    write(tmp_path, HEAD + RULE, "a.yaml")
    write(tmp_path, RULE, "b.yaml")
    error = refused(tmp_path)
    assert error.source.endswith("b.yaml")
    assert "our-key" in error.reason
    assert "a.yaml:5" in error.reason


def test_a_yaml_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    error = refused(write(tmp_path, HEAD + RULE + "    reason: another\n"))
    assert "'reason' stands twice" in error.reason
    assert error.line == 13


def test_an_alias_is_refused(tmp_path: Path) -> None:
    error = refused(write(tmp_path, HEAD + "keep: [&a {id: x, scope: [/a], reason: r}, *a]\n"))
    assert "alias" in error.reason


def test_text_that_is_no_yaml_is_refused_with_its_line(tmp_path: Path) -> None:
    assert refused(write(tmp_path, HEAD + "rules: [\n")).line is not None


@pytest.mark.parametrize("content", [b"\xff\xfe", b"- a\n", b""])
def test_a_file_that_is_no_mapping_of_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(content)
    assert refused(path).source == str(path)


def test_a_file_that_is_not_there_is_refused_in_one_sentence(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "none.yaml").reason


def test_a_rule_that_misses_its_own_example_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + RULE.replace("ours_{{alnum:20}}", "ours_{{alnum:8}}"))
    error = refused(path)
    assert "does not find its example 'ours_{{alnum:8}}'" in error.reason
    assert error.line == 5


def test_a_rule_that_finds_what_it_should_reject_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + RULE.replace("ours_short", "x ours_{{hex:20}} y"))
    assert "should reject" in refused(path).reason


def test_a_pattern_that_could_run_away_is_refused(tmp_path: Path) -> None:
    error = refused(write(tmp_path, HEAD + RULE.replace("ours_[", r"(ours)_\1[")))
    assert "RE2" in error.reason


def test_an_unknown_validator_is_refused_and_the_known_ones_are_listed(tmp_path: Path) -> None:
    error = refused(write(tmp_path, HEAD + RULE + "    validator: lunh\n"))
    assert "'lunh'" in error.reason
    assert "luhn" in error.reason


def test_what_unless_names_is_no_finding(tmp_path: Path) -> None:
    text = RULE.replace("'ours_[a-z0-9]", "'(?:test_)?ours_[a-z0-9]") + "    unless: '^test_'\n"
    text = text.replace("'ours_short'", "'test_ours_{{alnum:20}}'")
    assert load_ruleset(write(tmp_path, HEAD + text)).rules[0].unless == "^test_"


def test_a_field_rule_is_proved_by_name_and_value(tmp_path: Path) -> None:
    field = """
fields:
  - id: our-field
    kind: pii
    label: BADGE
    names: ['*badge']
    unless: [testbadge]
    reason: r
    owner: o
    matches: ['staff_badge: 4711']
    rejects: ['badge_count: 12', 'test_badge: 1']
"""
    assert load_ruleset(write(tmp_path, HEAD + field)).fields[0].names == ("*badge",)
    wrong = field.replace("badge_count", "visitorBadge")
    assert "should reject" in refused(write(tmp_path, HEAD + wrong)).reason


def test_a_ruleset_that_extends_the_default_adds_to_it_and_may_replace_a_rule(
    tmp_path: Path,
) -> None:
    replaced = RULE.replace("our-key", "github-token")
    ruleset = load_ruleset(write(tmp_path, HEAD + "extends: default\n" + replaced))
    patterns = {rule.id: rule.pattern for rule in ruleset.rules}
    assert patterns["github-token"] == "ours_[a-z0-9]{20}"
    assert len(patterns) == len(load_ruleset().rules)


def test_an_allowance_acts_until_the_day_it_expires(tmp_path: Path) -> None:
    text = HEAD + "allow: [{value: sandbox, reason: demo, expires: 2027-01-01}]\n"
    path = write(tmp_path, text)
    assert len(load_ruleset(path, today=date(2027, 1, 1)).allow) == 1
    assert load_ruleset(path, today=date(2027, 1, 2)).allow == ()


def test_an_allowance_needs_a_value_or_a_pattern(tmp_path: Path) -> None:
    error = refused(write(tmp_path, HEAD + "allow:\n  - {reason: demo}\n"))
    assert error.line == 4


def test_the_document_keeps_the_digest(tmp_path: Path) -> None:
    for ruleset in (load_ruleset(), load_ruleset(write(tmp_path, HEAD + RULE))):
        document = ruleset_document(ruleset)
        again = parse_document(document)
        assert again == ruleset
        assert ruleset_document(again) == document
        assert ruleset_digest(again) == ruleset_digest(ruleset)


def test_any_change_of_a_rule_changes_the_digest(tmp_path: Path) -> None:
    digests = {
        ruleset_digest(load_ruleset(write(tmp_path, HEAD + text)))
        for text in (RULE, RULE.replace("{20}", "{20,}"), RULE + "    action: hash\n")
    }
    assert len(digests) == 3


def test_a_document_that_is_no_ruleset_is_refused() -> None:
    for document in (b"{}", b"[", b'{"name": 1, "version": "1"}'):
        with pytest.raises(RulesetError):
            parse_document(document)


def test_the_order_of_keys_in_a_file_does_not_change_the_digest(tmp_path: Path) -> None:
    swapped = RULE.replace("    kind: secret\n    label: SECRET\n", "") + "    label: SECRET\n"
    swapped += "    kind: secret\n"
    first, second = (write(tmp_path, HEAD + text, n) for text, n in ((RULE, "a"), (swapped, "b")))
    loaded: list[Ruleset] = [load_ruleset(path) for path in (first, second)]
    assert ruleset_digest(loaded[0]) == ruleset_digest(loaded[1])
