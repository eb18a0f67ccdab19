"""Runs of which something is gone: shown and traced with a word on what went, and what it costs."""

import json
from pathlib import Path
from typing import Any

import pytest
from golden_runs import COMPLETE
from run_samples import NOW_US, Ingest
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.lake.layout import new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.records.access import Opener
from pipeline.records.reading import RunView
from pipeline.records.show import expired_rows, run_lines
from pipeline.records.trace import Hop, trace
from pipeline.retention.erase import Eraser
from pipeline.retention.policy import DAY_US, Policy
from pipeline.retention.shorten import Shortener
from pipeline.retention.subjects import pseudonyms_of
from pipeline.retention.sweep import Sweeper
from redactors import KeyRing

run = CliRunner().invoke
DEBUG_GONE_US = NOW_US + 4 * DAY_US  # the shortest class keeps three days
ALL_GONE_US = NOW_US + 400 * DAY_US


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    KeyRing.generate().save(tmp_path / "keys.json")
    return tmp_path / "keys.json"


@pytest.fixture
def store(tmp_path: Path, keys: Path) -> Store:
    """A whole run, whose decision and messages are of a class that goes after three days."""
    about = {"decision.made": {"class": "debug"}, "message": {"class": "debug"}}
    ingest = Ingest(Store.open(tmp_path / "lake", create=True))
    ingest.take_all([event | about.get(event["kind"], {}) for event in COMPLETE["events"]])
    return ingest.store


def sweep(store: Store, keys: Path, now_us: int) -> None:
    sweeper = Sweeper(store, new_claim(), "tester", lambda: now_us, KeyRing.load(keys))
    assert sweeper.sweep() is not None


def opened(store: Store, keys: Path | None, run_id: str = "run") -> RunView:
    ring = KeyRing.load(keys) if keys else None
    return Opener(read_lake(store), "tester", "test", None, lambda: NOW_US, ring).open(run_id)


def traced(view: RunView, now_us: int) -> tuple[Hop, ...]:
    return trace(view, lambda other: view, None, now_us)


def text(view: RunView) -> str:
    return " ".join(" ".join(run_lines(view, NOW_US)).split())


def test_a_whole_run_says_nothing_of_the_kind(store: Store, keys: Path) -> None:
    view = opened(store, keys)
    assert not view.is_partial and view.removals == ()
    assert all(hop.holds for hop in traced(view, NOW_US))


def test_what_went_of_a_run_is_shown_with_what_it_costs(store: Store, keys: Path) -> None:
    sweep(store, keys, DEBUG_GONE_US)
    view = opened(store, keys)
    assert [(each.table, each.why) for each in view.removals] == [("events", "sweep")]
    assert "events of this run of class debug expired (2026-09-" in text(view)
    assert "the outcome stands without what led to it" in text(view)
    last = traced(view, DEBUG_GONE_US)[-1]
    assert (last.what, last.holds, last.detail) == ("decision", False, "its event has expired")
    assert last.cost


def test_a_decision_whose_record_is_gone_as_well_is_not_said_never_to_have_been(
    store: Store, keys: Path
) -> None:
    sweep(store, keys, DEBUG_GONE_US)
    view = opened(store, keys)
    without = RunView("run", (), view.events, 0, 0, view.removals)
    last = traced(without, DEBUG_GONE_US)[-1]
    assert last.detail == "no decision was recorded in what is left: rows of the run expired"


def test_what_went_early_by_a_shorter_policy_has_expired_and_is_not_said_to_be_there(
    store: Store, keys: Path
) -> None:
    """The record still says when its events were to go."""
    lifetimes = {"debug": "24h", "default": "30d", "legal": "400d"}
    classes = {name: {"lifetime": span, "bucket": "hour"} for name, span in lifetimes.items()}
    policy = Policy.model_validate({"default": "default", "classes": classes})
    Shortener(store, new_claim(), "tester", lambda: NOW_US, policy).shorten("less is enough")
    early_us = NOW_US + 2 * DAY_US
    sweep(store, keys, early_us)
    view = opened(store, keys)
    assert "authority" in expired_rows(view.records[0], early_us)
    assert "authority" not in expired_rows(opened(store, None).records[0], early_us)
    assert traced(view, early_us)[-1].detail == "its event has expired"


def test_without_the_key_nobody_can_ask_what_went(store: Store, keys: Path) -> None:
    sweep(store, keys, DEBUG_GONE_US)
    assert opened(store, None).removals == ()


def test_a_run_that_is_gone_is_told_from_one_that_never_was(
    store: Store, keys: Path, tmp_path: Path
) -> None:
    sweep(store, keys, ALL_GONE_US)
    words = ["--lake", store.location, "--keys", str(keys)]
    for command in ("show", "trace"):
        gone = run(app, ["runs", command, "run", *words]).exception
        never = run(app, ["runs", command, "nobody", *words]).exception
        assert isinstance(gone, UsageError) and isinstance(never, UsageError)
        assert (gone.code, never.code) == ("removed-run", "unknown-run")
        assert str(gone) == "the run has expired: nothing of it is left"


def test_what_was_erased_is_not_said_to_have_expired(tmp_path: Path, keys: Path) -> None:
    (subject,) = pseudonyms_of(["ann"], keys)
    about: dict[str, dict[str, Any]] = {"decision.made": {"subjects": [subject]}}
    ingest = Ingest(Store.open(tmp_path / "erased", create=True))
    ingest.take_all([event | about.get(event["kind"], {}) for event in COMPLETE["events"]])
    ring = KeyRing.load(keys)
    Eraser(ingest.store, new_claim(), "tester", lambda: NOW_US, ring).erase(["ann"], "asked for")
    view = opened(ingest.store, keys)
    assert "events of this run of class default were erased" in text(view)
    last = traced(view, NOW_US)[-1]
    assert (last.holds, last.detail) == (False, "its event was erased")


def test_the_command_line_gives_removals_as_json(store: Store, keys: Path) -> None:
    sweep(store, keys, DEBUG_GONE_US)
    words = ["--lake", store.location, "--keys", str(keys), "--json"]
    found = json.loads(run(app, ["runs", "show", "run", *words]).stdout)
    assert [each["why"] for each in found["removals"]] == ["sweep"]
