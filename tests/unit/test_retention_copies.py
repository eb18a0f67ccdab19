"""Copies: entered before they are made, removed at their deadline, named where out of reach."""

import json
import stat
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lake_samples import BUCKET, DIGEST, NOW_US, ingest, masked_slice
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.lake.documents import store_policy
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.retention.copies import Copier, find_copy, read_copies
from pipeline.retention.exports import export_query, of_classes
from pipeline.retention.holds import Holds
from pipeline.retention.ledger import Receipt
from pipeline.retention.plan import plan_retention
from pipeline.retention.policy import load_policy
from pipeline.retention.survey import survey
from pipeline.retention.sweep import Sweeper

NEXT = "2026-10-22T00"
ENDED_US = Bucket("events", "default", BUCKET).starts_us
HERE = "this-host"
SQL = "SELECT run_id, body, redactions FROM events"
run = CliRunner().invoke


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "lake", create=True)
    store_policy(store, DIGEST, load_policy().document)
    ingest(store, masked_slice(0, 8, expires=(BUCKET, NEXT)))
    return store


def copier(store: Store, host: str = HERE) -> Copier:
    return Copier(store, "tester", host, lambda: NOW_US)


def sweep(store: Store, now_us: int = ENDED_US) -> Receipt | None:
    return Sweeper(store, new_claim(), "tester", lambda: now_us, host=HERE).sweep()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".json"])
def test_an_export_is_private_entered_and_gone_at_the_first_deadline_in_it(
    store: Store, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out{suffix}"
    copy = export_query(read_lake(store), SQL, path, copier(store))
    assert copy.deadline_us == ENDED_US and copy.size_bytes == path.stat().st_size > 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if suffix == ".parquet":
        assert pq.read_table(path).num_rows == 8
    elif suffix == ".json":
        assert len(json.loads(path.read_text())) == 8
    assert [known.location for known in read_copies(store)] == [str(path)]
    sweep(store, ENDED_US - 1)
    assert path.exists()
    plan = plan_retention(survey(store, ENDED_US, Holds()), ENDED_US)
    assert [known.location for known in plan.copies] == [str(path)]
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete and receipt.copies == (str(path),)
    assert not path.exists() and read_copies(store) == ()


def test_an_export_of_one_class_has_that_classes_deadline(store: Store, tmp_path: Path) -> None:
    lake = read_lake(store)
    assert of_classes(lake, ()) is lake
    with pytest.raises(UsageError):
        export_query(of_classes(lake, ("legal",)), SQL, tmp_path / "out.csv", copier(store))
    copy = export_query(of_classes(lake, ("default",)), SQL, tmp_path / "out.csv", copier(store))
    assert copy.deadline_us == ENDED_US


def test_an_export_never_writes_over_a_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(UsageError):
        export_query(read_lake(store), SQL, path, copier(store))
    assert path.read_text() == "mine" and read_copies(store) == ()


def test_an_export_that_failed_half_way_is_removed_all_the_same(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(UsageError):
        export_query(read_lake(store), "SELECT body::INT FROM events", path, copier(store))
    assert path.exists()
    receipt = sweep(store)
    assert receipt is not None and receipt.copies == (str(path),)
    assert not path.exists()


def test_a_copy_on_another_machine_is_named_until_it_is_said_to_be_gone(store: Store) -> None:
    far = copier(store, "elsewhere").register("html", "/srv/report.html", ENDED_US)
    url = copier(store).register("external", "s3://partner/export", ENDED_US)
    receipt = sweep(store)
    assert receipt is not None and not receipt.is_complete and receipt.copies == ()
    assert [(each.what, each.code) for each in receipt.failures] == [
        ("/srv/report.html", "copy-unreachable"),
        ("s3://partner/export", "copy-unreachable"),
    ]
    for copy in (far, url):
        copier(store).close(find_copy(store, copy.number), "said to be gone")
    assert sweep(store) is None
    with pytest.raises(UsageError):
        find_copy(store, far.number)


def test_a_file_that_took_the_copys_place_is_not_ours_to_delete(
    store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    export_query(read_lake(store), SQL, path, copier(store))
    path.write_text("something else")
    receipt = sweep(store)
    assert receipt is not None and [each.code for each in receipt.failures] == ["copy-changed"]
    assert path.read_text() == "something else"


def test_a_copy_that_somebody_deleted_before_is_no_failure(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    export_query(read_lake(store), SQL, path, copier(store))
    path.unlink()
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete and receipt.copies == (str(path),)


def test_the_command_line_exports_lists_and_closes(store: Store, tmp_path: Path) -> None:
    path, lake = tmp_path / "out.parquet", store.location
    assert run(app, ["query", SQL, "--lake", lake, "--to", str(path)]).exit_code == 0
    assert pq.read_table(path).column_names == ["run_id", "body", "redactions"]
    words = ["retention", "copies"]
    added = run(app, [*words, "add", "s3://partner/x", "--lake", lake, "--deadline", "2026-11-01"])
    assert added.exit_code == 0, added.output
    listed = json.loads(run(app, [*words, "list", "--lake", lake, "--json"]).stdout)
    assert [(each["kind"], each["location"]) for each in listed] == [
        ("query", str(path)),
        ("external", "s3://partner/x"),
    ]
    assert run(app, [*words, "gone", "3", "--lake", lake]).exit_code == 0
    shown = run(app, [*words, "list", "--lake", lake])
    assert "query" in shown.stdout and "partner" not in shown.stdout
