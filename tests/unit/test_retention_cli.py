"""`redactory retention` on a small lake."""

import json
from pathlib import Path

import pytest
from lake_samples import masked_slice
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.layout import new_claim
from pipeline.lake.store import Store
from redactors import KeyRing

PAST, NEXT = "2020-10-21T00", "2099-10-22T00"
run = CliRunner().invoke


@pytest.fixture
def lake(tmp_path: Path) -> str:
    store = Store.open(tmp_path / "lake", create=True)
    writer = SliceCommitter(store, new_claim(), lambda: 0)  # long ago
    written = writer.write(masked_slice(0, 8, expires=(PAST, NEXT)))
    assert written is not None
    writer.commit(written)
    return store.location


@pytest.fixture
def keys(tmp_path: Path) -> str:
    KeyRing.generate().save(tmp_path / "keys.json")
    return str(tmp_path / "keys.json")


def test_a_plan_for_another_instant_says_what_would_have_gone_by_then(lake: str) -> None:
    now = run(app, ["retention", "plan", "--lake", lake, "--json"])
    later = run(app, ["retention", "plan", "--lake", lake, "--now", f"{NEXT}:00:00", "--json"])
    assert [json.loads(said.stdout)["rows"] for said in (now, later)] == [4, 8]
    shown = run(app, ["retention", "plan", "--lake", lake])
    assert "4 rows of 3 runs go with 1 files" in shown.stdout


def test_a_dry_run_is_a_plan_and_a_sweep_is_not(lake: str, keys: str) -> None:
    words = ["retention", "sweep", "--lake", lake, "--keys", keys, "--json"]
    dry = json.loads(run(app, [*words, "--dry-run"]).stdout)
    assert dry["rows"] == 4
    done = run(app, words)
    assert done.exit_code == 0
    assert [each["rows"] for each in json.loads(done.stdout)["buckets"]] == [4]
    assert json.loads(run(app, words).stdout) is None


def test_the_ledger_is_shown_and_a_broken_chain_is_an_exit_code(lake: str, keys: str) -> None:
    run(app, ["retention", "sweep", "--lake", lake, "--keys", keys])
    words = ["retention", "log", "--lake", lake]
    whole = run(app, words)
    assert (whole.exit_code, "the chain holds" in whole.stdout) == (0, True)
    receipt = Path(lake) / "_audit/removals/000000000001.commit"
    receipt.write_bytes(receipt.read_bytes() + b"\n")
    assert run(app, words).exit_code == 0  # the last receipt is pinned by its digest alone
    (Path(lake) / "_audit/removals/000000000001.intent").unlink()
    broken = run(app, [*words, "--json"])
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["broken"][0]["number"] == 1


def test_a_bucket_that_has_not_ended_is_in_no_sweep(lake: str, keys: str) -> None:
    run(app, ["retention", "sweep", "--lake", lake, "--keys", keys])
    folders = [path.name for path in Path(lake, "events/retention_class=default").iterdir()]
    assert folders == [f"expires={NEXT}"]
