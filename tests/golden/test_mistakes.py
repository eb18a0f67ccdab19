"""Mistakes in rulesets, each told in one sentence with its file and line."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.review.check import check

TODAY = date(2026, 12, 1)
HEAD = 'name: ours\nversion: "1"\n'
RIGHT: dict[str, Any] = {
    "id": "ours", "kind": "secret", "label": "SECRET", "group": 0, "pattern": "ours_[a-z]{8}",
    "reason": "a key of ours", "owner": "security", "matches": ["ours_{{lower:8}}"],
}  # fmt: skip
SEEDED: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text())


def written(rule: dict[str, Any]) -> str:
    """One rule, one key a line; the first stands on line 4 of its file."""
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in rule.items()]
    return "  - " + "    ".join(lines)


def ruleset_text(seeded: dict[str, Any]) -> str:
    if "rules" in seeded:
        return HEAD + str(seeded["rules"]) + "\n"
    rule = {**RIGHT, **seeded.get("with", {})}
    rule.pop(seeded.get("without", ""), None)
    return HEAD + "rules:\n" + written(rule) * (2 if seeded.get("twice") else 1)


def test_a_right_rule_has_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(ruleset_text({}))
    report = check(path, TODAY)
    assert (report.mistakes, report.overlaps) == ((), ())
    assert len(report.digest) == 64


@pytest.mark.parametrize("seeded", SEEDED, ids=lambda seeded: str(seeded["mistake"]))
def test_a_mistake_is_told_in_one_sentence_with_its_place(
    seeded: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(ruleset_text(seeded))
    (mistake,) = check(path, TODAY).mistakes
    assert (mistake.source, mistake.line) == (str(path), seeded["line"]), str(mistake)
    assert seeded["says"] in mistake.reason
    assert "\n" not in mistake.reason


def test_twenty_kinds_of_mistakes_are_seeded() -> None:
    assert len({seeded["mistake"] for seeded in SEEDED}) >= 20


def test_an_overlap_that_changes_nothing_is_told_but_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    other = {**RIGHT, "id": "longer", "pattern": "ours_[a-z]{8}(?:-[a-z]+)?"}
    path.write_text(HEAD + "rules:\n" + written(RIGHT) + written(other))
    report = check(path, TODAY)
    assert report.mistakes == ()
    assert [str(overlap) for overlap in report.overlaps] == [
        f"{path}:16: longer: each of its examples is taken by ours, which does the same"
    ]
