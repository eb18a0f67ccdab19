"""`redactory rules history`: which rulesets wrote a lake, read from its log alone."""

import json
from pathlib import Path

import pytest
from lake_samples import DIGEST, NOW_US, ingest, masked_slice
from redaction_samples import rule, small_ruleset
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.lake.checkpoints import cut_all
from pipeline.lake.documents import store_ruleset
from pipeline.lake.entries import canonical
from pipeline.lake.store import Store
from pipeline.review.history import versions
from redactors import load_ruleset, ruleset_digest, ruleset_document

OLD = small_ruleset()
NEW = small_ruleset(rule("ours", "ours_[a-z]{8}"), version="2")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two partitions: one written under OLD, NEW and OLD again, one under NEW."""
    folder = tmp_path / "lake"
    store = Store.open(folder, create=True)
    for each in (OLD, NEW):
        store_ruleset(store, ruleset_digest(each), ruleset_document(each))
    old, new = ruleset_digest(OLD), ruleset_digest(NEW)
    for start, digest in ((0, old), (3, old), (6, new), (9, old)):
        ingest(store, masked_slice(start, start + 3, ruleset=digest, dead=[start]))
    ingest(store, masked_slice(0, 4, ruleset=new, refused=[1], partition=1))
    return folder


def stretches(lake: Path) -> dict[str, list[tuple[int, int, int, int, int]]]:
    return {
        version.version: [
            (w.partition, w.stretch.start, w.stretch.end, w.stretch.commits, w.stretch.rows)
            for w in version.written
        ]
        for version in versions(Store.open(lake))
    }


EXPECTED = {
    "1": [(0, 0, 6, 2, 6), (0, 9, 12, 1, 3)],
    "2": [(0, 6, 9, 1, 3), (1, 0, 4, 1, 3)],
}


def test_it_says_what_each_ruleset_wrote_and_when(lake: Path) -> None:
    assert stretches(lake) == EXPECTED
    for version in versions(Store.open(lake)):
        assert (version.first_us, version.last_us, version.kept) == (NOW_US, NOW_US, True)


def test_it_says_the_same_after_the_log_was_cut_and_went_on(lake: Path) -> None:
    store = Store.open(lake)
    assert cut_all(store) > 0
    assert stretches(lake) == EXPECTED
    ingest(store, masked_slice(12, 15, ruleset=ruleset_digest(OLD)))
    cut_all(store)
    assert stretches(lake)["1"] == [(0, 0, 6, 2, 6), (0, 9, 15, 2, 6)]


def test_a_checkpoint_of_before_says_not_which_ruleset_wrote(lake: Path) -> None:
    store = Store.open(lake)
    cut_all(store)
    for path in (lake / "_log/runs").glob("*/checkpoints/*"):
        document = json.loads(path.read_bytes())
        del document["stretches"]
        path.write_bytes(canonical(document))
    ingest(store, masked_slice(12, 15, ruleset=ruleset_digest(NEW)))
    unknown, new, old = versions(store)
    assert (unknown.digest, unknown.kept, unknown.rows) == ("", False, 15)
    assert (new.version, new.rows, old.version, old.rows) == ("2", 3, "1", 0)
    printed = CliRunner().invoke(app, ["rules", "history", str(lake)]).stdout
    assert printed.startswith("unknown  the log was cut before")


def test_a_ruleset_that_wrote_nothing_and_one_whose_text_is_not_kept_are_told(lake: Path) -> None:
    store, unused = Store.open(lake), small_ruleset(version="3")
    store_ruleset(store, ruleset_digest(unused), ruleset_document(unused))
    ingest(store, masked_slice(4, 6, ruleset=DIGEST, partition=1))
    *_, lost, last = versions(store)
    assert (lost.digest, lost.kept, lost.rows) == (DIGEST, False, 2)
    assert (last.version, last.written) == ("3", ())
    printed = CliRunner().invoke(app, ["rules", "history", str(lake)]).stdout
    assert f"{ruleset_digest(unused)}  test 3\n  nothing\n" in printed
    assert "  runs 1 [4, 6): 2 rows in 1 commits, 2026-09-21 14:13:20\n" in printed


def test_the_text_of_a_version_is_a_ruleset_again(lake: Path, tmp_path: Path) -> None:
    digest = ruleset_digest(NEW)
    printed = CliRunner().invoke(app, ["rules", "history", str(lake), "--document", digest[:10]])
    path = tmp_path / "then.yaml"
    path.write_text(printed.stdout)
    assert ruleset_digest(load_ruleset(path)) == digest
    result = CliRunner().invoke(app, ["rules", "history", str(lake), "--document", "0000"])
    assert isinstance(result.exception, UsageError)


def test_as_json_every_stretch_has_its_place(lake: Path) -> None:
    found = json.loads(CliRunner().invoke(app, ["rules", "history", str(lake), "--json"]).stdout)
    assert {each["digest"]: each["rows"] for each in found} == {
        ruleset_digest(OLD): 9,
        ruleset_digest(NEW): 6,
    }
    assert {each["first_us"] for each in found} == {NOW_US}
