"""The page on which security reviews the rules: what it counts, and what it shows."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from demo_lake import ingest_events
from redaction_samples import KEYS, email, password
from rescrub_samples import CODE, NEW, NOW_US, OLD, OURS, lake, run_events
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.retention.access import read_reads
from pipeline.retention.copies import read_copies
from pipeline.review.report.page import page
from pipeline.review.report.review import Review, review
from pipeline.review.report.shapes import shape
from pipeline.review.shadow import Trial
from redactors import Ruleset, ruleset_digest
from redactors.ruleset import Allow, Keep


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two runs, stored under the old rules."""
    folder = tmp_path_factory.mktemp("reviewed")
    KEYS.save(folder / "keys.json")
    return lake(folder / "lake", OLD)


def reviewed(store: Store, ruleset: Ruleset = OLD, since: str | None = None) -> Review:
    return review(read_lake(store), ruleset, since, NOW_US, lambda done, total: None)


def test_hits_are_counted_by_rule_field_and_day(store: Store) -> None:
    survey = reviewed(store).survey
    by_rule = {hit.rule: 0 for hit in survey.hits}
    for hit, count in survey.hits.items():
        by_rule[hit.rule] += count
    assert by_rule == {"email": 3, "aws-key": 1, "field-password": 1, "field-name": 1}
    fields = {hit.name for hit in survey.hits if hit.rule == "email"}
    assert fields == {"note", "content", "goal"}
    assert survey.events == len(run_events())


def test_values_are_told_apart_by_what_became_of_them(store: Store) -> None:
    kept = OLD.model_copy(
        update={
            "keep": (Keep(id="roles", scope=("/role",), reason="a closed list"),),
            "allow": (
                Allow(value="tickets", reason="a queue"),
                Allow(pattern="[a-z]{30}", reason="r"),
            ),
        }
    )
    survey = reviewed(store, kept).survey
    found = survey.coverage
    assert (found.masked, found.kept, found.allowed, found.events) == (6, 1, 1, 10)
    assert found.values == found.masked + found.kept + found.allowed + found.clear
    assert found.ruled == 2
    assert found.unruled["type"] == {"word": 1}
    assert survey.met == {0: True, 1: False}


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (12, "number"), (True, "true, false or null"), ("2026-12-01T10:00:00Z", "time"),
        ("12.5", "number in text"), ("blue", "word"), ("a b", "text"), ("a\nb", "lines of text"),
        ("x_1", "identifier"), ("x1" * 60, "long token"), ("/etc/x", "path"), ("a" * 64, "digest"),
        ("https://example.org/x", "URL"), ('{"a": 1}', "JSON"),
        ("123e4567-e89b-12d3-a456-426614174000", "UUID"),
    ],
)  # fmt: skip
def test_a_value_is_told_by_its_shape(value: object, word: str) -> None:
    assert shape(value) == word


def test_the_page_says_what_was_asked_and_shows_no_value_that_is_masked(store: Store) -> None:
    text = page(reviewed(store, NEW, ruleset_digest(OLD)[:12]))
    for said in ("rules/ours", "fields/badge", "added", "field-password"):
        assert said in text
    assert "code heron" in text  # what stands around a mask, as it is stored
    for value in (email(), email(2), password()):
        assert value not in text


def test_rules_on_trial_are_marked_and_what_they_would_do_is_told(store: Store) -> None:
    on_trial = NEW.model_copy(
        update={"rules": (*OLD.rules, NEW.rules[-1].model_copy(update={"mode": "shadow"}))}
    )
    found = replace(reviewed(store, on_trial), trials=[Trial("ours", "ab" * 32, 7, NOW_US, NOW_US)])
    text = page(found)
    assert "in shadow: masks nothing" in text and "In shadow: what rules on trial" in text
    assert "In shadow: what rules on trial" not in page(reviewed(store, on_trial))


def test_excerpts_mark_the_mask_in_its_place(store: Store) -> None:
    (first, *_) = reviewed(store).survey.excerpts["email"]
    assert first.mask.startswith("[EMAIL:k1:") and first.before.endswith((" by ", " to ", " for "))


def test_what_stands_in_rows_is_escaped(tmp_path: Path) -> None:
    hostile = f"</pre><script>alert(1)</script>{email()}\" onload='x'"
    (event, *_) = run_events()
    body = json.dumps({hostile: 1, "a<b": [hostile]})
    made = ingest_events(
        tmp_path / "lake", [replace(event, body=body)], NOW_US, keys=KEYS, ruleset=OLD
    )
    text = page(reviewed(made.store))
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    assert text.count("<script>") == 1


def test_a_ruleset_that_the_lake_does_not_keep_cannot_be_compared_with(store: Store) -> None:
    with pytest.raises(UsageError, match="no ruleset"):
        reviewed(store, since="ff" * 32)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "report.html"


def test_the_command_writes_a_copy_and_that_somebody_read(store: Store, target: Path) -> None:
    arguments = ["rules", "report", "--lake", store.location, "--html", str(target)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    assert target.stat().st_mode & 0o777 == 0o600
    assert [copy.location for copy in read_copies(store)] == [str(target)]
    assert [read.command for read in read_reads(store)] == ["rules report"]
    assert OURS in target.read_text()  # the built-in rules do not know it
    assert CODE.split()[1] in target.read_text()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code != 0
