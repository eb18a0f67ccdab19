"""Runs of sealed classes: shown to whoever holds the keys, for a purpose, and written down."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import run_samples
from golden_runs import COMPLETE
from run_samples import Ingest, sliced
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.lake.keystore import ENVIRONMENT
from pipeline.lake.sealing import SEALED
from pipeline.lake.store import Store
from pipeline.retention.access import read_reads
from pipeline.retention.policy import Policy
from pipeline.slices import MaskedSlice, Part

run = CliRunner().invoke
SEALED_CLASS = {"lifetime": "30d", "bucket": "day", "action": "seal-then-shred"}


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def lake(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A whole run, all of it sealed, to be read because of an incident only."""
    classes = {"default": SEALED_CLASS | {"purposes": ["incident"]}}
    policy = Policy.model_validate({"default": "default", "classes": classes})
    monkeypatch.setattr(run_samples, "POLICY", policy)
    store = Store.open(tmp_path / "lake", create=True)
    events = COMPLETE["events"]
    Ingest(store).take(sealed(sliced(events, 0, len(events))))
    return store.location


def sealed(masked: MaskedSlice) -> MaskedSlice:
    parts = []
    for part in masked.parts:
        schema = {**(part.rows.schema.metadata or {}), SEALED: b""}
        rows = part.rows.replace_schema_metadata(schema)
        parts.append(Part(part.table, part.retention_class, part.expires, rows))
    return replace(masked, parts=tuple(parts))


def shown(lake: str, *words: str) -> Any:
    done = run(app, ["runs", "show", "run", "--lake", lake, "--json", *words])
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout)


def test_content_is_shown_to_whoever_has_the_keys(lake: str) -> None:
    found = shown(lake, "--purpose", "incident")
    stored = [json.loads(event["body"]) for event in found["events"]]
    assert stored == [event.get("body", {}) for event in COMPLETE["events"]]
    traced = run(app, ["runs", "trace", "run", "--lake", lake, "--purpose", "incident"])
    assert traced.exit_code == 0 and "✓ task" in traced.stdout


def test_without_the_keys_the_rest_is_shown_and_the_trace_says_what_it_lacks(
    lake: str, keys: Path
) -> None:
    shutil.rmtree(keys)
    found = shown(lake, "--purpose", "incident")
    assert [event["kind"] for event in found["events"]] == [
        event["kind"] for event in COMPLETE["events"]
    ]
    assert {event["body"] for event in found["events"]} == {None}
    words = ["--lake", lake, "--purpose", "incident"]
    text = run(app, ["runs", "show", "run", *words]).stdout
    assert f"content of {len(COMPLETE['events'])} events is sealed" in " ".join(text.split())
    traced = run(app, ["runs", "trace", "run", *words])
    assert traced.exit_code == 1
    assert "✗ decision: its content is sealed, and the keys are not here" in traced.stdout


def test_a_page_of_a_sealed_run_holds_content_only_with_the_keys(
    lake: str, keys: Path, tmp_path: Path
) -> None:
    words = ["runs", "show", "run", "--lake", lake, "--purpose", "incident", "--html"]
    canary = COMPLETE["events"][1]["body"]["task"]["goal"]
    assert run(app, [*words, str(tmp_path / "open.html")]).exit_code == 0
    shutil.rmtree(keys)
    assert run(app, [*words, str(tmp_path / "shut.html")]).exit_code == 0
    pages = [(tmp_path / name).read_text() for name in ("open.html", "shut.html")]
    assert [canary in page for page in pages] == [True, False]


def test_a_purpose_is_demanded_and_the_read_is_written_down(lake: str) -> None:
    words = ["runs", "show", "run", "--lake", lake]
    for purpose in ([], ["--purpose", "curiosity"]):
        refused = run(app, [*words, *purpose])
        assert isinstance(refused.exception, UsageError) and refused.stdout == ""
    assert list(read_reads(Store.open(lake))) == []
    shown(lake, "--purpose", "incident")
    (read,) = read_reads(Store.open(lake))
    assert (read.command, read.run, read.purpose) == ("runs show", "run", "incident")
    assert read.classes == ("default",)


def test_a_run_of_another_class_is_read_without_the_purpose(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = {
        "default": SEALED_CLASS | {"purposes": ["incident"]},
        "plain": {"lifetime": "30d", "bucket": "day"},
    }
    policy = Policy.model_validate({"default": "default", "classes": classes})
    monkeypatch.setattr(run_samples, "POLICY", policy)
    more = [*COMPLETE["events"], {"run_id": "other", "class": "plain", "sequence": 0}]
    Ingest(Store.open(lake)).take(sliced(more, len(more) - 1, len(more)))
    assert run(app, ["runs", "show", "other", "--lake", lake]).exit_code == 0
    assert isinstance(run(app, ["runs", "show", "run", "--lake", lake]).exception, UsageError)
