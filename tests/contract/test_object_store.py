"""The commit protocol on a real S3 server (moto's, on the loopback), also while it fails."""

from collections.abc import Iterator
from itertools import count

import boto3
import pytest
from botocore.config import Config
from faulty_proxy import FAULTS, Plan, faulty_proxy
from lake_samples import BUCKET, NOW_US, ingest, masked_slice, now
from moto_server import make_bucket, moto_server, point_to

from pipeline.errors import LakeError, LostPartition
from pipeline.lake import Store, open_lake
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.log import PartitionLog
from pipeline.lake.query import query
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.retention.sweep import Sweeper

STRUCTURE = Checks(leaks=False, processes=1)
DIGEST = "cd" * 32
_numbers = count()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with moto_server() as chosen:
        make_bucket(chosen, "lakes")
        yield chosen


@pytest.fixture
def lake(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty lake that keeps the documents its slices name."""
    point_to(monkeypatch, port)
    location = f"s3://lakes/lake-{next(_numbers)}"
    store_ruleset(Store.open(location), DIGEST, b"{}")
    store_policy(Store.open(location), DIGEST, b"{}")
    return location


def test_a_key_is_written_once_and_never_replaced(lake: str) -> None:
    store = Store.open(lake)
    assert store.put_if_absent("_log/x", b"first")
    assert not store.put_if_absent("_log/x", b"second")
    store.put_tmp("_tmp/c/file", b"third")
    assert not store.publish("_tmp/c/file", "_log/x")
    assert store.get("_log/x") == b"first"
    assert store.publish("_tmp/c/file", "events/y")
    assert [tuple(item) for item in store.walk("events")] == [("events/y", 5)]
    assert store.folders("") == ["_log", "_tmp", "events"]


def test_a_file_that_was_taken_away_cannot_be_published(lake: str) -> None:
    store = Store.open(lake)
    store.put_tmp("_tmp/c/runs-0/file", b"data")
    store.move_away("_tmp/c/runs-0", "_tmp/d/taken")
    with pytest.raises(LostPartition):
        store.publish("_tmp/c/runs-0/file", "events/y")


def test_the_whole_protocol_runs_on_an_object_store(lake: str) -> None:
    store = Store.open(lake)
    for start in (0, 10):
        ingest(store, masked_slice(start, start + 10, dead=[start], ruleset=DIGEST))
    frozen = SliceCommitter(store, new_claim(), now)
    written = frozen.write(masked_slice(20, 30, ruleset=DIGEST))
    assert written is not None
    ingest(store, masked_slice(20, 30, ruleset=DIGEST))
    with pytest.raises(LostPartition):
        frozen.commit(written)
    Rewriter(store, new_claim(), NOW_US).compact(Bucket("events", "default", BUCKET))
    report = verify(lake, STRUCTURE)
    assert (report.findings, report.rows, report.files) == ((), 30, 3)
    sql = "SELECT count(*), max(expires), count(DISTINCT run_id) FROM events WHERE kafka_offset > 5"
    assert list(query(open_lake(lake), sql).rows) == [(23, BUCKET, 3)]


@pytest.mark.parametrize("seed", range(3))
def test_a_failing_store_loses_and_doubles_nothing(
    lake: str, port: int, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    plan = Plan(seed, 0.25, frozenset({"PUT", "GET", "HEAD"}))
    with faulty_proxy(port, plan) as failing:
        point_to(monkeypatch, failing)
        store = Store.open(lake)
        for start in range(0, 40, 10):
            ingest(store, masked_slice(start, start + 10, ruleset=DIGEST))
    point_to(monkeypatch, port)
    assert set(plan.done) == set(FAULTS)
    report = verify(lake, STRUCTURE)
    assert (report.findings, report.rows) == ((), 40)
    assert PartitionLog(Store.open(lake), "runs", 0).position().next_number == 5


def test_an_answer_that_was_lost_does_not_lose_the_partition(
    lake: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try wrote the entry: the second finds its own and goes on."""

    class LoseFirst(Plan):
        def next(self, method: str) -> "str | None":  # type: ignore[override]
            first = method == "PUT" and not self.done["lost answer"]
            self.done["lost answer"] += first
            return "lost answer" if first else None

    with faulty_proxy(port, LoseFirst(0, 1.0, frozenset())) as failing:
        point_to(monkeypatch, failing)
        ingest(Store.open(lake), masked_slice(0, 10, ruleset=DIGEST))
    point_to(monkeypatch, port)
    assert verify(lake, STRUCTURE).findings == ()


def test_a_bucket_that_keeps_versions_takes_no_ingest_and_no_sweep_of_it_is_complete(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is deleted there stays: an old version is a copy that no sweep reaches."""
    point_to(monkeypatch, port)
    make_bucket(port, "versions")
    store = Store.open("s3://versions/lake")
    store.check_writable()
    ingest(store, masked_slice(0, 10, ruleset=DIGEST))
    client = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    with pytest.raises(LakeError) as caught:
        store.check_writable()
    assert caught.value.code == "versioned"
    ended_us = Bucket("events", "default", BUCKET).starts_us
    receipt = Sweeper(store, new_claim(), "tester", lambda: ended_us).sweep()
    assert receipt is not None and not receipt.is_complete
    assert [each.code for each in receipt.failures] == ["versioned"]
    assert [each.rows for each in receipt.buckets] == [10]
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Suspended"})
    store.check_writable()


def test_a_store_that_refuses_or_is_away_is_one_sentence(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LakeError) as caught:
        Store.open("s3://no-such-bucket/lake").put_if_absent("x", b"")
    assert "\n" not in str(caught.value)
    with pytest.raises(LakeError) as caught:
        Store.open("nonsense://somewhere")
    assert "\n" not in str(caught.value)
