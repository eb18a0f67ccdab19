"""A part of a lake is proved by the time at which its slices were read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from lake_samples import BUCKET, DIGEST, NOW_US, ingest, masked_slice, now
from typer.testing import CliRunner

from pipeline.cli import verify as verify_command
from pipeline.lake.checkpoints import truncate, write_checkpoint
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.proof.findings import Report
from pipeline.lake.proof.window import Window
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify

HOUR_US = 3_600_000_000
FILE = f"events/retention_class=default/expires={BUCKET}/runs-0-00000000000{{}}.parquet"

app = typer.Typer()
verify_command.register(app)
app.callback()(lambda: None)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Four slices of eight offsets, an hour apart."""
    store = Store.open(tmp_path / "lake", create=True)
    store_ruleset(store, DIGEST, b"{}")
    store_policy(store, DIGEST, b"{}")
    for hour in range(4):
        ingest_at(store, hour, 8 * hour)
    return tmp_path / "lake"


def ingest_at(store: Store, hour: int, start: int) -> None:
    """Eight offsets, read at that hour."""
    at_us = NOW_US + hour * HOUR_US
    masked = masked_slice(start, start + 8, columns={"ingested_at": at_us})
    ingest(store, replace(masked, header=replace(masked.header, now_us=at_us)))


def proved(lake: Path, first: int | None, last: int | None) -> Report:
    """The slices of the hours `[first, last)`."""
    edges = [None if hour is None else NOW_US + hour * HOUR_US for hour in (first, last)]
    return verify(str(lake), Checks(leaks=False, processes=1, window=Window(*edges)))


def test_only_the_rows_of_the_time_are_read_and_accounted_for(lake: Path) -> None:
    report = proved(lake, 1, 3)
    assert (report.findings, report.files, report.rows) == ((), 2, 16)
    (part,) = report.partitions
    assert (part.start, part.end, part.stored) == (8, 24, 16)


def test_what_is_wrong_is_found_in_its_own_time(lake: Path) -> None:
    (lake / FILE.format(2)).unlink()
    assert proved(lake, 2, None).findings == ()
    assert proved(lake, None, 1).findings == ()
    assert [(f.code, f.offset) for f in proved(lake, 1, 2).findings] == [
        ("file-missing", 8),
        ("offset-unaccounted", 8),
    ]


def test_the_log_is_proved_as_a_whole(lake: Path) -> None:
    entry = lake / "_log/runs/0/000000000002.commit"
    entry.write_text(entry.read_text().replace('"end": 16', '"end": 15').replace(":16,", ":15,"))
    assert {f.code for f in proved(lake, 3, None).violations} >= {"intent-differs"}


def test_rows_are_found_where_a_rewrite_put_them(lake: Path) -> None:
    Rewriter(Store.open(lake), new_claim(), now()).compact(Bucket("events", "default", BUCKET))
    report = proved(lake, 1, 2)
    assert (report.findings, report.files, report.partitions[0].stored) == ((), 1, 8)


def test_what_a_cut_log_no_longer_tells_apart_is_proved_with_the_rest(lake: Path) -> None:
    store = Store.open(lake)
    assert write_checkpoint(store, "runs", 0) is not None
    truncate(store, "runs", 0)
    ingest_at(store, 9, 32)
    assert proved(lake, 9, None).rows == 40
    assert proved(lake, None, 9).rows == 32


def test_the_command_takes_times_and_refuses_a_receipt_of_a_part(lake: Path) -> None:
    run = CliRunner().invoke
    words = ["verify", "--lake", str(lake), "--structure-only", "--from", "2026-09-21T15:00:00"]
    told = run(app, [*words, "--json"])
    assert told.exit_code == 0
    assert json.loads(told.stdout)["files"] == 3
    refused = run(app, [*words, "--receipt", str(lake.parent / "receipt.json")])
    assert refused.exit_code != 0
    assert not (lake.parent / "receipt.json").exists()
