"""Rules of other tools become rules of ours; what cannot is listed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import InputError, UsageError
from pipeline.review.importing import DETECTORS, Imported, import_rules
from redactors import load_ruleset

GITLEAKS = r"""
title = "ours"
[extend]
useDefault = true
[[rules]]
id = "acme_token"
description = "Acme token"
regex = '''(?i)acme[_-]?key\s*=\s*["']?([a-z0-9]{24})["']?'''
entropy = 3.2
keywords = ["Acme"]
[[rules.allowlists]]
regexes = ['''example''']
[[rules]]
id = "acme-id"
regex = '''\bacme\([0-9]{8}\)[(]'''
[[rules]]
id = "second-group"
regex = '''(a|b)_([0-9]{8})'''
secretGroup = 2
[[rules]]
id = "looks-ahead"
regex = '''acme(?=x)[0-9]{8}'''
[[rules]]
id = "key-file"
path = '''\.p12$'''
[allowlist]
paths = ['''vendor/''']
"""
CARRIED = ["gitleaks-acme-token", "gitleaks-acme-id", "gitleaks-second-group"]

PRESIDIO = r"""
global_regex_flags: 26
recognizers:
  - CreditCardRecognizer
  - {name: Unused, supported_entity: UNUSED, enabled: false, deny_list: [x]}
  - {name: SpacyRecognizer, type: predefined}
  - name: Badge
    supported_entity: STAFF_BADGE
    supported_language: en
    patterns:
      - {name: strong, regex: '\bB-[0-9]{6}\b', score: 0.8}
      - {name: odd, regex: '(?<=x)[0-9]{6}', score: 0.1}
    context: [badge]
  - name: Titles
    supported_entity: TITLE
    deny_list: [Doctor, Mrs]
"""

BASELINE = {
    "version": "1.5.0",
    "plugins_used": [{"name": "AWSKeyDetector"}, {"name": "HexHighEntropyString", "limit": 3.0}],
    "filters_used": [{"path": "detect_secrets.filters.heuristic.is_sequential_string"}],
    "results": {"a.py": [{"type": "Hex High Entropy String", "hashed_secret": "0", "line": 1}]},
    "generated_at": "2026-01-01T00:00:00Z",
}


def imported(tmp_path: Path, text: str, source: str) -> Imported:
    path = tmp_path / "rules"
    path.write_text(text)
    return import_rules(path, source, "security")


def by_id(found: Imported) -> dict[str, dict[str, Any]]:
    return {rule["id"]: rule for rule in found.rules}


def test_gitleaks_rules_are_carried_over_and_the_rest_is_listed(tmp_path: Path) -> None:
    found = imported(tmp_path, GITLEAKS, "gitleaks")
    rules = by_id(found)
    assert list(rules) == CARRIED
    token = rules["gitleaks-acme-token"]
    assert (token["group"], token["min_entropy"], token["keywords"]) == (1, 3.2, ["acme"])
    assert "group" not in rules["gitleaks-acme-id"]
    assert rules["gitleaks-second-group"]["group"] == 2
    left = "\n".join(sorted(found.left))
    assert "rule acme_token: its `allowlists`" in left
    assert "rule looks-ahead: pattern" in left
    assert "rule key-file: it looks at paths" in left
    assert "allowlist: decide" in left
    assert "extend: decide" in left
    assert len(found.left) == 5


def test_presidio_recognizers_are_carried_over_and_the_rest_is_listed(tmp_path: Path) -> None:
    found = imported(tmp_path, PRESIDIO, "presidio")
    rules = by_id(found)
    assert list(rules) == ["presidio-badge-strong", "presidio-titles-words"]
    badge = rules["presidio-badge-strong"]
    assert (badge["kind"], badge["label"], badge["action"]) == ("pii", "STAFF_BADGE", "hash")
    assert badge["pattern"].startswith("(?is)")
    left = "\n".join(found.left)
    for said in (
        "CreditCardRecognizer: it is code",
        "SpacyRecognizer: it is code",
        "Unused: it is",
        "flags:",
    ):
        assert said in left
    for said in ("Badge-odd: pattern", "`context`", "score of 0.8", "`supported_language`"):
        assert said in left


def test_of_a_baseline_the_detectors_we_have_are_covered_and_the_rest_is_listed(
    tmp_path: Path,
) -> None:
    found = imported(tmp_path, json.dumps(BASELINE), "detect-secrets")
    document = yaml.safe_load(found.document())
    assert document == {"name": "detect-secrets", "version": "1", "extends": "default"}
    assert [sentence.split()[0] for sentence in found.left] == ["plugin", "filter", "a.py:"]
    assert "HexHighEntropyString" in found.left[0]


def test_the_rules_that_stand_for_detectors_exist() -> None:
    ruleset = load_ruleset()
    assert set(DETECTORS.values()) <= {r.id for r in (*ruleset.rules, *ruleset.fields)}


@pytest.mark.parametrize(
    ("pattern", "group"),
    [
        ("key=(x[0-9]{8})(?:;|$)", 1),
        ("key=(x|y[0-9]{8});", 1),
        ("(?:a|b)=(?P<v>x[0-9]{8})", 1),
        ("key=x[0-9]{8}", 0),
        ("(k)=(x[0-9]{8})", 0),
        ("key=(x[0-9]{8})|y[0-9]{8}", 0),
        ("key=(?:(x[0-9]{8})|y[0-9]{8})", 0),
        ("key=y[0-9]{8}(x)?", 0),
        (r"key\(x[0-9]{8}[(]", 0),
    ],
)
def test_without_a_group_named_no_less_is_masked(tmp_path: Path, pattern: str, group: int) -> None:
    rule = f"[[rules]]\nid = 'a'\nregex = '{pattern}'\n"
    found = imported(tmp_path, rule, "gitleaks")
    assert found.left == []
    assert found.rules[0].get("group", 0) == group


def test_two_rules_of_one_name_get_two_ids(tmp_path: Path) -> None:
    rule = "[[rules]]\nid = \"a b\"\nregex = 'x[0-9]{8}'\n"
    assert list(by_id(imported(tmp_path, rule * 2, "gitleaks"))) == [
        "gitleaks-a-b",
        "gitleaks-a-b-2",
    ]


@pytest.mark.parametrize(
    ("text", "source"),
    [("[", "gitleaks"), ("a = 1", "gitleaks"), ("- a", "presidio"), ("{}", "detect-secrets")],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, source: str) -> None:
    with pytest.raises(InputError, match=source):
        imported(tmp_path, text, source)


def test_a_tool_nobody_knows_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trufflehog"):
        imported(tmp_path, "", "trufflehog")


def test_the_command_prints_a_ruleset_that_loads_and_names_what_is_left_out(
    tmp_path: Path,
) -> None:
    path, rules = tmp_path / "gitleaks.toml", tmp_path / "rules.yaml"
    path.write_text(GITLEAKS)
    arguments = ["rules", "import", str(path), "--from", "gitleaks", "--owner", "security"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert result.stderr.count("left out: ") == 5
    rules.write_text(result.stdout)
    assert set(CARRIED) < {rule.id for rule in load_ruleset(rules).rules}
