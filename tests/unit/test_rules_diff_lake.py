"""What another ruleset would do to what is stored: to masks by their declarations, to clear text by
looking at it."""

import json
from pathlib import Path

import pytest
from redaction_samples import KEYS, field, rule
from rescrub_samples import CODE, NEW, OLD, OURS, lake
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.lake.store import Store
from pipeline.review.diff import Difference
from pipeline.review.diff_lake import compare_over_lake, question
from redactors import Ruleset
from redactors.ruleset import Rule

OTHER_EMAIL = r"[a-z]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two runs, stored under the old rules."""
    folder = tmp_path_factory.mktemp("compared")
    KEYS.save(folder / "keys.json")
    return lake(folder / "lake", OLD)


def compared(store: Store, new: Ruleset, old: Ruleset = OLD) -> Difference:
    difference = Difference([], [], {})
    asked = question(store.location, old, new, Path(store.location).parent / "keys.json")
    assert compare_over_lake(difference, asked, 1, lambda done, total: None) == 10
    return difference


def without_rule(name: str, *more: Rule) -> Ruleset:
    kept = (each for each in OLD.rules if each.id != name)
    return OLD.model_copy(update={"rules": (*kept, *more)})


def noted(difference: Difference) -> dict[str, int]:
    return {sort: count for sort, count in difference.counts.items() if count}


def test_the_same_rules_do_the_same(store: Store) -> None:
    assert noted(compared(store, OLD)) == {}


def test_what_only_the_new_rules_find_is_counted_as_often_as_it_stands_there(store: Store) -> None:
    found = compared(store, NEW)
    assert noted(found) == {"newly_masked": 8}
    (sample, *_) = found.samples["newly_masked"]
    assert (sample.length, sample.after) == (len(OURS), "ours: mask as SECRET")
    assert sample.place.startswith("demo 0:")
    assert OURS not in repr(found) and CODE not in repr(found)
    assert not found.leaks


def test_it_is_told_from_two_rulesets_that_did_not_write_the_lake(store: Store) -> None:
    assert noted(compared(store, OLD, old=NEW)) == {"no_longer_masked": 8}


def test_masks_of_a_rule_that_is_gone_would_leak(store: Store) -> None:
    found = compared(store, without_rule("email"))
    assert noted(found) == {"no_longer_masked": 3} and found.leaks
    (sample, *_) = found.samples["no_longer_masked"]
    assert (sample.length, sample.before, sample.after) == (None, "email: hash as EMAIL", "")


def test_masks_of_a_rule_whose_examples_another_takes_are_masked_otherwise(store: Store) -> None:
    examples = {"matches": ("{{lower:9}}@mail.example.org",)}
    (before,) = (each for each in OLD.rules if each.id == "email")
    old = without_rule("email", before.model_copy(update=examples))
    address = rule("address", before.pattern, kind="pii", label="ADDRESS")
    found = compared(store, without_rule("email", address), old)
    assert noted(found) == {"masked_differently": 3}
    assert found.samples["masked_differently"][0].after == "address: mask as ADDRESS"


def test_another_label_or_action_masks_otherwise_and_keep_leaks(store: Store) -> None:
    (before,) = (each for each in OLD.rules if each.id == "email")
    masked = without_rule("email", before.model_copy(update={"action": "mask"}))
    assert noted(compared(store, masked)) == {"masked_differently": 3}
    kept = without_rule("email", before.model_copy(update={"action": "keep"}))
    assert compared(store, kept).counts["no_longer_masked"] == 3
    shadow = without_rule("email", before.model_copy(update={"mode": "shadow"}))
    assert compared(store, shadow).counts["no_longer_masked"] == 3


def test_what_a_changed_pattern_still_finds_cannot_be_told(store: Store) -> None:
    (before,) = (each for each in OLD.rules if each.id == "email")
    narrow = without_rule("email", before.model_copy(update={"pattern": OTHER_EMAIL}))
    assert noted(compared(store, narrow)) == {"cannot_tell": 3}


def test_a_field_is_told_by_its_name(store: Store) -> None:
    gone = OLD.model_copy(update={"fields": OLD.fields[1:]})
    assert noted(compared(store, gone)) == {"no_longer_masked": 1}
    taken = field("secret-word", "password", label="WORD")
    moved = OLD.model_copy(update={"fields": (*OLD.fields[1:], taken)})
    assert noted(compared(store, moved)) == {"masked_differently": 1}


RULES = """
name: ours
version: "1"
rules:
  - {id: ours, kind: secret, label: SECRET, pattern: 'ours_[a-z]{8}', reason: r, owner: o,
     matches: ['ours_{{lower:8}}'], rejects: ['ours_short']}
"""


def test_the_command_compares_over_a_lake(store: Store, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(RULES.replace("ours", "other"))
    new.write_text(RULES)
    keys = str(Path(store.location).parent / "keys.json")
    over = ["--over", store.location, "--keys", keys, "--json"]
    result = CliRunner().invoke(app, ["rules", "diff", str(old), str(new), *over])
    found = json.loads(result.stdout)["counts"]
    # The examples of the old ruleset leak, too.
    assert (found["newly_masked"], found["no_longer_masked"], result.exit_code) == (7, 1, 1)
    assert CliRunner().invoke(app, ["rules", "diff", str(new), str(new), *over]).exit_code == 0
