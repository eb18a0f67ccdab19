"""Summing up what was done to buckets of which nothing is left: the lake is as it was before."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from lake_samples import BUCKET, NOW_US, ingest, masked_slice

from pipeline.errors import LakeError
from pipeline.lake.checkpoints import cut_all
from pipeline.lake.history import read_rewrites
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.proof.receipt import load_receipt, save_receipt
from pipeline.lake.query import query
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.retention.cutting import cut_rewrites
from pipeline.retention.holds import Rows, add_hold
from pipeline.retention.ledger import Ledger
from pipeline.retention.policy import Policy
from pipeline.retention.shorten import Shortener
from pipeline.retention.sweep import Sweeper
from pipeline.retention.tombstones import read_tombstones
from redactors import KeyRing

NEXT, LAST = "2026-10-22T00", "2026-10-23T00"
EVENTS = Bucket("events", "default", BUCKET)
ENDED_US = EVENTS.starts_us
SAMPLES_ONLY = {"document-missing", "deadline-differs"}
STRUCTURE = Checks(leaks=False, newer=False, processes=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two slices in three buckets, merged; the first bucket has ended and was swept."""
    store = Store.open(tmp_path / "lake", create=True)
    for start in (0, 9):
        ingest(store, masked_slice(start, start + 9, expires=(BUCKET, NEXT, LAST)))
    Rewriter(store, new_claim(), NOW_US).compact(EVENTS)
    sweep(store, ENDED_US)
    return store


def sweep(store: Store, now_us: int) -> None:
    receipt = Sweeper(store, new_claim(), "tester", lambda: now_us).sweep(with_strays=True)
    assert receipt is not None and receipt.is_complete


def state(store: Store) -> tuple[Any, ...]:
    """All that a reader of the lake and of its audit trail can see."""
    rows = sorted(query(read_lake(store), "SELECT kafka_offset, expires FROM events").rows)
    tombstones = sorted((t.expires, t.number, t.why, t.rows) for t in read_tombstones(store))
    codes = {found.code for found in verify(store.location, STRUCTURE).findings}
    assert codes <= SAMPLES_ONLY and Ledger(store, "").check() == ()
    return rows, tombstones


def cut(store: Store, now_us: int = ENDED_US) -> int:
    cut_all(store)
    return cut_rewrites(store, now_us)


def test_nothing_changes_for_whoever_reads_and_the_entries_are_gone(store: Store) -> None:
    before = state(store)
    assert len(read_rewrites(store)) == 2
    assert cut(store) == 4  # two intents, two commits
    assert read_rewrites(store) == ()
    assert state(store) == before
    assert cut(store) == 0


def test_without_a_checkpoint_above_it_nothing_is_summed_up(store: Store) -> None:
    assert cut_rewrites(store, ENDED_US) == 0


def test_a_bucket_with_held_rows_or_that_has_not_ended_stays(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "held", create=True)
    ingest(store, masked_slice(0, 9, expires=(BUCKET, NEXT)))
    about = {"by": "tester", "reason": "case", "owner": "legal", "review_on": "2027-01-01"}
    add_hold(store, Rows(runs=("run-0",)), now_us=NOW_US, **about)
    ingest(store, masked_slice(9, 12, expires=(NEXT,)))
    Rewriter(store, new_claim(), NOW_US).compact(Bucket("events", "default", NEXT))
    sweep(store, ENDED_US)
    before = state(store)
    assert cut(store) == 0 and state(store) == before


def test_what_comes_back_afterwards_goes_under_a_number_of_its_own(store: Store) -> None:
    cut(store)
    path = Path(store.location, EVENTS.rewritten_key(2, 0))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"a late upload")
    sweep(store, ENDED_US)
    assert not path.exists()
    numbers = [t.number for t in read_tombstones(store) if t.bucket == EVENTS]
    assert numbers == [2, 3]
    before = state(store)
    assert cut(store) == 2 and state(store) == before


def test_a_signed_receipt_of_before_still_proves_the_lake(store: Store, tmp_path: Path) -> None:
    ring = KeyRing.generate()
    report = verify(store.location, STRUCTURE)
    save_receipt(tmp_path / "receipt", report, ring, NOW_US, with_rules=False)
    sweep(store, Bucket("events", "default", NEXT).starts_us)
    cut(store, Bucket("events", "default", NEXT).starts_us)
    since = load_receipt(tmp_path / "receipt", ring)
    found = verify(store.location, STRUCTURE, since=since).findings
    assert {each.code for each in found} <= SAMPLES_ONLY


def test_a_file_that_vanished_is_not_taken_for_summed_up(store: Store, tmp_path: Path) -> None:
    ring = KeyRing.generate()
    save_receipt(
        tmp_path / "receipt", verify(store.location, STRUCTURE), ring, NOW_US, with_rules=False
    )
    cut(store)
    (live, *_) = read_lake(store).files["events"]
    store.delete(live.path)
    since = load_receipt(tmp_path / "receipt", ring)
    codes = {each.code for each in verify(store.location, STRUCTURE, since=since).findings}
    assert "file-missing" in codes


def test_buckets_between_which_rows_were_moved_are_summed_up_together(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "moved", create=True)
    ingest(store, masked_slice(0, 4))
    classes = {"default": {"lifetime": "20d", "bucket": "day"}}
    policy = Policy.model_validate({"default": "default", "classes": classes})
    Shortener(store, new_claim(), "tester", lambda: NOW_US, policy).shorten("less")
    assert cut(store) == 0
    sweep(store, ENDED_US)
    ingest(store, masked_slice(4, 6, expires=(LAST,)))  # the next checkpoint needs a commit
    before = state(store)
    assert len(before[0]) == 2 and cut(store) == 4 and state(store) == before


def test_one_that_was_stopped_half_way_is_finished_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, original, left = state(store), type(store).delete, 2
    cut_all(store)

    def fail(self: Store, key: str) -> None:
        nonlocal left
        left -= "_rewrites/" in key
        if left < 0:
            raise LakeError("the disk failed", code="io")
        original(self, key)

    monkeypatch.setattr(type(store), "delete", fail)
    with suppress(LakeError):
        cut_rewrites(store, ENDED_US)
    monkeypatch.undo()
    assert state(store) == before
    cut_rewrites(store, ENDED_US)
    assert state(store) == before


def test_while_a_removal_is_open_its_entries_stay(store: Store) -> None:
    cut_all(store)
    Ledger(store, new_claim()).begin("sweep", NOW_US, "tester", [])
    assert cut_rewrites(store, ENDED_US) == 0


def test_a_writer_of_another_bucket_is_not_hindered(store: Store) -> None:
    cut(store)
    ingest(store, masked_slice(18, 20, expires=(LAST,)))
    assert {offset for offset, _ in state(store)[0]} >= {18, 19}
