"""The sweep: what has ended goes, with receipt and tombstone, and nothing else does."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from lake_samples import BUCKET, NOW_US, ingest, masked_slice
from running import until

from pipeline import faultpoints
from pipeline.config import IngestConfig
from pipeline.errors import LakeError, LostPartition
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.store import Store
from pipeline.lake.verify import Checks, verify
from pipeline.retention.holds import Holds
from pipeline.retention.ledger import Ledger, Receipt
from pipeline.retention.plan import plan_retention
from pipeline.retention.schedule import SweepSchedule
from pipeline.retention.survey import survey
from pipeline.retention.sweep import Sweeper
from pipeline.retention.tombstones import read_tombstones, removals_of_run
from pipeline.retention.topic import Drift
from redactors import KeyRing

NEXT = "2026-10-22T00"
EVENTS = Bucket("events", "default", BUCKET)
DEAD = Bucket("dead_letters", "default", BUCKET)
ENDED_US = EVENTS.starts_us
SAMPLES_ONLY = {"document-missing", "deadline-differs"}  # no ruleset kept, one deadline for all
STRUCTURE = Checks(leaks=False, newer=False, processes=1)


class Killed(BaseException):
    """Stands for `kill -9`: nothing after it runs."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two partitions; the rows of the first end in two buckets."""
    store = Store.open(tmp_path / "lake", create=True)
    ingest(store, masked_slice(0, 8, expires=(BUCKET, NEXT), dead=[3]))
    ingest(store, masked_slice(8, 12, expires=(BUCKET,)))
    ingest(store, masked_slice(0, 5, partition=1, expires=(NEXT,)))
    return store


def sweep(store: Store, now_us: int = ENDED_US, *, keys: KeyRing | None = None) -> Receipt | None:
    sweeper = Sweeper(store, new_claim(), "tester", lambda: now_us, keys)
    return sweeper.sweep(with_strays=True)


def live_offsets(store: Store) -> list[tuple[int, int]]:
    """(partition, offset) of every live row."""
    lake = read_lake(store)
    return sorted(
        (row["kafka_partition"], row["kafka_offset"])
        for files in lake.files.values()
        for file in files
        for row in from_parquet(store.get(file.path)).to_pylist()
    )


def is_accounted_for(store: Store) -> bool:
    """The lake verifies, and each removal has a receipt and a tombstone of the same size."""
    codes = {found.code for found in verify(store.location, STRUCTURE).findings}
    assert codes <= SAMPLES_ONLY, codes
    ledger = Ledger(store, "")
    assert ledger.check() == ()
    receipts = [receipt for _, receipt in ledger.entries() if receipt is not None]
    by_receipt = sorted(
        (*bucket_of(each), number)
        for receipt in receipts
        for each in receipt.buckets
        for number in each.rewrites
    )
    by_rewrite = sorted(
        (rewrite.table, rewrite.retention_class, rewrite.expires, rewrite.number)
        for rewrite in read_lake(store).rewrites
        if rewrite.removed and rewrite.purpose != "compact"
    )
    tombstones = list(read_tombstones(store))
    assert sorted((*bucket_of(each), each.number) for each in tombstones) == by_rewrite
    assert sum(each.rows for r in receipts for each in r.buckets) == sum(t.rows for t in tombstones)
    return by_receipt == by_rewrite


def bucket_of(each: object) -> tuple[str, str, str]:
    return tuple(getattr(each, name) for name in ("table", "retention_class", "expires"))  # type: ignore[return-value]


def test_a_bucket_goes_at_its_start_and_the_next_one_stays(store: Store) -> None:
    before = live_offsets(store)
    assert sweep(store, ENDED_US - 1) is None
    assert live_offsets(store) == before
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete
    assert [(each.table, each.files, each.rows) for each in receipt.buckets] == [
        ("dead_letters", 1, 1),
        ("events", 2, 8),
    ]
    assert live_offsets(store) == [(0, 1), (0, 5), (0, 7)] + [(1, offset) for offset in range(5)]
    assert list(store.walk(EVENTS.folder)) == list(store.walk(DEAD.folder)) == []
    assert is_accounted_for(store)


def test_nothing_left_to_do_leaves_no_trace(store: Store) -> None:
    assert sweep(store) is not None
    before = sorted(store.walk(""))
    assert sweep(store) is None
    assert sorted(store.walk("")) == before


def test_a_plan_says_what_a_sweep_at_that_instant_would_take(store: Store) -> None:
    facts = survey(store, ENDED_US, Holds())
    plan = plan_retention(facts, ENDED_US)
    assert (plan.files, plan.rows, plan.runs, plan.held_rows) == (3, 9, 3, 0)
    assert plan_retention(facts, ENDED_US - 1).buckets == ()
    receipt = sweep(store)
    assert receipt is not None
    assert sum(each.size_bytes for each in receipt.buckets) == plan.size_bytes
    assert survey(store, ENDED_US, Holds()).buckets == ()


def test_a_tombstone_tells_the_holder_of_the_key_which_runs_lost_rows(store: Store) -> None:
    keys = KeyRing.generate()
    sweep(store, keys=keys)
    gone = removals_of_run(store, "run-1", keys)
    assert [(each.table, each.why, each.rows, each.runs) for each in gone] == [
        ("events", "sweep", 8, 3)
    ]
    assert [(span.partition, span.first, span.last) for span in gone[0].spans] == [(0, 0, 11)]
    assert removals_of_run(store, "run-9", keys) == ()
    assert removals_of_run(store, "run-1", KeyRing.generate()) == ()
    assert b"run-1" not in b"".join(store.get(item.key) for item in store.walk("_audit"))


CRASHES = (
    "removal-intent.before", "removal-intent.after", "rewrite-intent.before",
    "rewrite-intent.after", "rewrite-commit.before", "rewrite-commit.after", "remove.after",
    "receipt.before", "receipt.after", "entry-link.before", "entry-link.after",
)  # fmt: skip


@pytest.mark.parametrize("time", [1, 2, 3])
@pytest.mark.parametrize("point", CRASHES)
def test_a_sweep_killed_anywhere_is_finished_by_the_next(
    store: Store, point: str, time: int
) -> None:
    faultpoints.install(kill_at(point, time))
    with suppress(Killed):
        sweep(store)
    faultpoints.install(None)
    sweep(store)
    assert live_offsets(store) == [(0, 1), (0, 5), (0, 7)] + [(1, offset) for offset in range(5)]
    assert list(store.walk(EVENTS.folder)) == []
    assert is_accounted_for(store)


def kill_at(point: str, time: int) -> Callable[[str], None]:
    passed = 0

    def act(name: str) -> None:
        nonlocal passed
        passed += name == point
        if passed == time and name == point:
            raise Killed

    return act


def test_of_two_sweeps_at_once_one_ends_and_says_so(store: Store) -> None:
    def other(name: str) -> None:
        if name == "rewrite-commit.before":
            faultpoints.install(None)
            assert sweep(store) is not None

    faultpoints.install(other)
    with pytest.raises(LostPartition):
        sweep(store)
    assert list(store.walk(EVENTS.folder)) == []
    assert is_accounted_for(store)


def test_a_file_that_will_not_go_is_an_error_and_goes_next_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = f"{EVENTS.folder}/runs-0-000000000001.parquet"
    delete = type(store).delete

    def refuse(self: Store, key: str) -> None:
        if key == stuck:
            raise LakeError("the lake may not be written", code="no-permission")
        delete(self, key)

    monkeypatch.setattr(type(store), "delete", refuse)
    receipt = sweep(store)
    assert receipt is not None and not receipt.is_complete
    assert [each.left for each in receipt.buckets] == [(), (stuck,)]
    assert [(each.what, each.code) for each in receipt.failures] == [
        (EVENTS.folder, "no-permission")
    ]
    assert [item.key for item in store.walk(EVENTS.folder)] == [stuck]
    monkeypatch.undo()
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete
    assert [each.came_back for each in receipt.buckets] == [1]
    assert is_accounted_for(store)


def test_a_store_that_says_deleted_and_keeps_the_file_is_found_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(store), "delete", lambda self, key: None)
    receipt = sweep(store)
    assert receipt is not None and not receipt.is_complete
    assert sum(len(each.left) for each in receipt.buckets) == 3


def test_a_file_that_cannot_be_read_goes_all_the_same(store: Store) -> None:
    path = Path(store.location) / EVENTS.folder / "runs-0-000000000002.parquet"
    path.write_bytes(b"PAR1 torn")
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete
    assert [each.rows for each in receipt.buckets] == [1, 8]
    assert not path.exists()


def test_a_slice_that_was_being_written_loses_its_ended_rows_to_the_sweep(store: Store) -> None:
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    written = writer.write(masked_slice(12, 16, expires=(BUCKET, NEXT)))
    assert written is not None
    sweep(store)
    writer.commit(written)
    assert [at for at in live_offsets(store) if at[1] >= 12] == [(0, 13), (0, 15)]
    assert sweep(store) is None
    assert is_accounted_for(store)


def test_a_thawed_writer_who_publishes_late_is_swept_next_time(store: Store) -> None:
    sweep(store)
    ingest(store, masked_slice(12, 16, expires=(BUCKET, NEXT)))  # its clock stood still
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete
    assert [each.rows for each in receipt.buckets] == [2]
    assert is_accounted_for(store)


def test_unfinished_files_go_with_the_bucket_their_name_says(store: Store) -> None:
    faultpoints.install(kill_at("publish.before", 1))
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    with pytest.raises(Killed):
        writer.write(masked_slice(12, 16, expires=(BUCKET, NEXT)))
    faultpoints.install(None)
    receipt = sweep(store)
    assert receipt is not None and [BUCKET in key for key in receipt.unfinished] == [True]
    assert [NEXT in item.key for item in store.walk("_tmp")] == [True]
    assert sweep(store, ENDED_US) is None


def test_a_bucket_that_ends_while_a_slice_is_written_costs_the_slice_its_rows_only(
    store: Store,
) -> None:
    clock_us = NOW_US

    def end(name: str) -> None:
        nonlocal clock_us
        if name == "flush.after":
            faultpoints.install(None)
            clock_us = ENDED_US
            sweep(store)

    faultpoints.install(end)
    writer = SliceCommitter(store, new_claim(), lambda: clock_us)
    written = writer.write(masked_slice(12, 16, expires=(BUCKET, NEXT)))
    assert written is not None and written.expired == 2
    writer.commit(written)
    assert [at for at in live_offsets(store) if at[1] >= 12] == [(0, 13), (0, 15)]
    assert is_accounted_for(store)


def test_an_ingest_sweeps_when_it_starts_and_tells_what_would_not_go(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = IngestConfig("nowhere:9", "runs", store.location, keys=str(tmp_path / "keys.json"))
    told: list[str] = []
    drift: tuple[Drift, ...] = ()
    with SweepSchedule(config, told.append, lambda: ENDED_US, lambda config: drift):
        until(lambda: not list(store.walk(EVENTS.folder)), "the sweep")
    assert told == []
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    written = writer.write(masked_slice(12, 16, expires=(BUCKET,)))
    assert written is not None
    writer.commit(written)
    monkeypatch.setattr(type(store), "delete", lambda self, key: None)
    with SweepSchedule(config, told.append, lambda: ENDED_US, lambda config: drift):
        until(lambda: bool(told), "a word about it")
    assert told == ["the sweep could not remove everything: see receipt 2"]
    monkeypatch.undo()
    drift = (Drift("retention.ms", "-1", "5", "too long"),)
    with SweepSchedule(config, told.append, lambda: ENDED_US, lambda config: drift):
        until(lambda: len(told) > 1, "a word about the topic")
    assert "retention.ms = -1" in told[1] and "--repair" in told[1]


def test_a_changed_or_missing_receipt_breaks_the_chain(store: Store) -> None:
    sweep(store)
    sweep(store, Bucket("events", "default", NEXT).starts_us)
    assert Ledger(store, "").check() == ()
    first = Path(store.location) / "_audit/removals/000000000001.commit"
    kept = first.read_bytes()
    first.unlink()
    assert [each.number for each in Ledger(store, "").check()] == [1, 2]
    first.write_bytes(kept.replace(b'"rows":8', b'"rows":1'))
    assert [each.number for each in Ledger(store, "").check()] == [2]
