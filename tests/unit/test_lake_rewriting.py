"""Sweeping, compacting, redoing after a loss, cutting the log: nothing is lost or comes back."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lake_samples import BUCKET, NOW_US, ingest, masked_slice, now, sweep

from pipeline import faultpoints
from pipeline.errors import LostPartition
from pipeline.lake import sweeping
from pipeline.lake.checkpoints import truncate, write_checkpoint
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.parquet import from_parquet
from pipeline.lake.store import Store
from pipeline.lake.sweeping import ABANDONED_US, Rewriter, crowded_buckets
from pipeline.slices import Gap

DAY = Bucket("events", "default", BUCKET)
AFTER_US = DAY.starts_us


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "lake", create=True)


def at_first(point: str, do: Callable[[], object]) -> None:
    """Does something once, when the fault point is reached for the first time."""

    def act(name: str) -> None:
        if name == point:
            faultpoints.install(None)
            do()

    faultpoints.install(act)


def rewriter(store: Store, now_us: int = NOW_US) -> Rewriter:
    return Rewriter(store, new_claim(), now_us)


def live_offsets(store: Store) -> list[int]:
    files = read_lake(store).files["events"]
    rows = (row for file in files for row in from_parquet(store.get(file.path)).to_pylist())
    return sorted(row["kafka_offset"] for row in rows)


def test_compaction_leaves_one_sorted_file_with_the_same_rows(store: Store) -> None:
    for start in (0, 4, 8):
        ingest(store, masked_slice(start, start + 4))
    (rewrite,) = rewriter(store).compact(DAY)
    assert [len(rewrite.removed), len(rewrite.added)] == [3, 1]
    assert live_offsets(store) == list(range(12))
    runs = from_parquet(store.get(rewrite.added[0].path))["run_id"].to_pylist()
    assert runs == sorted(map(str, runs))
    assert [item.key for item in store.walk("events")] == [rewrite.added[0].path]


def test_compaction_stops_a_file_where_it_is_large_enough(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 20, 4):
        ingest(store, masked_slice(start, start + 4))
    sizes = [file.size_bytes for file in read_lake(store).files["events"]]
    monkeypatch.setattr(sweeping, "MERGED_BYTES", 2 * max(sizes) + 1)
    rewrites = rewriter(store).compact(DAY)
    assert [len(rewrite.removed) for rewrite in rewrites] == [2, 2]
    assert live_offsets(store) == list(range(20))
    assert crowded_buckets(read_lake(store), 2) == ()


def test_a_compactor_that_was_overtaken_before_its_claim_plans_anew(store: Store) -> None:
    for start in (0, 4):
        ingest(store, masked_slice(start, start + 4))
    at_first("rewrite-intent.before", lambda: rewriter(store).compact(DAY))
    with pytest.raises(LostPartition):
        rewriter(store).compact(DAY)
    rewriter(store).compact(DAY)
    assert live_offsets(store) == list(range(8))


def test_a_compactor_that_was_overtaken_after_its_claim_changes_nothing(store: Store) -> None:
    for start in (0, 4):
        ingest(store, masked_slice(start, start + 4))
    at_first("rewrite-commit.before", lambda: rewriter(store).compact(DAY))
    with pytest.raises(LostPartition):
        rewriter(store).compact(DAY)
    assert live_offsets(store) == list(range(8))
    assert len(read_lake(store).strays().outside) == 1
    rewriter(store).remove_strays()
    assert live_offsets(store) == list(range(8))


def test_what_a_compactor_is_about_to_add_is_no_stray_until_it_is_given_up(store: Store) -> None:
    for start in (0, 4):
        ingest(store, masked_slice(start, start + 4))

    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    at_first("rewrite-commit.before", die)
    with pytest.raises(Killed):
        rewriter(store).compact(DAY)
    assert rewriter(store).remove_strays() == ()
    assert len(rewriter(store, NOW_US + ABANDONED_US + 1).remove_strays()) == 1
    assert live_offsets(store) == list(range(8))


def test_a_bucket_is_not_swept_before_it_ends(store: Store) -> None:
    ingest(store, masked_slice(0, 4))
    sweep(store, [DAY], AFTER_US - 1)
    assert live_offsets(store) == [0, 1, 2, 3]
    sweep(store, [DAY], AFTER_US)
    assert live_offsets(store) == []
    assert list(store.walk("events")) == []


def test_a_writer_frozen_before_its_commit_does_not_revive_a_swept_bucket(store: Store) -> None:
    committer = SliceCommitter(store, new_claim(), now)
    written = committer.write(masked_slice(0, 4))
    assert written is not None
    sweep(store, [DAY], AFTER_US)
    committer.commit(written)
    assert live_offsets(store) == []
    assert list(store.walk("events")) == []


def test_a_redo_takes_back_from_published_files_what_the_topic_lost(store: Store) -> None:
    buckets = (BUCKET, "2026-10-22T00")
    assert SliceCommitter(store, new_claim(), now).write(masked_slice(0, 8, expires=buckets))
    lost = (Gap(0, 5, "lost-before-redo"),)
    entry = ingest(store, masked_slice(0, 8, expires=buckets, gaps=lost))
    assert (entry.gaps, entry.counts["events"]) == ((), 8)
    assert live_offsets(store) == list(range(8))


def test_what_nobody_has_any_more_stays_a_declared_gap(store: Store) -> None:
    buckets = (BUCKET, "2026-10-22T00")
    SliceCommitter(store, new_claim(), now).write(masked_slice(0, 8, expires=buckets))
    (Path(store.location) / Bucket("events", "default", buckets[1]).folder).rename(
        Path(store.location) / "elsewhere"
    )
    lost = (Gap(0, 5, "lost-before-redo"),)
    entry = ingest(store, masked_slice(0, 8, expires=buckets, gaps=lost))
    assert entry.gaps == (Gap(1, 2, "lost-before-redo"), Gap(3, 4, "lost-before-redo"))
    assert entry.counts["events"] == 6


def test_a_writer_that_slept_while_the_log_was_cut_has_lost_the_partition(store: Store) -> None:
    frozen = SliceCommitter(store, new_claim(), now)
    written = frozen.write(masked_slice(0, 4))
    assert written is not None
    frozen.commit(written)

    def go_on_and_cut() -> None:
        for start in (4, 8, 12):
            ingest(store, masked_slice(start, start + 4))
        write_checkpoint(store, "runs", 0)
        truncate(store, "runs", 0)

    at_first("intent.before", go_on_and_cut)
    written = frozen.write(masked_slice(4, 8))
    assert written is not None
    with pytest.raises(LostPartition):
        frozen.commit(written)
    assert PartitionLog(store, "runs", 0).position().next_offset == 16
    assert live_offsets(store) == list(range(16))


def test_the_end_of_a_long_log_is_found_with_few_lookups(store: Store) -> None:
    for start in range(40):
        ingest(store, masked_slice(start, start + 1))
    asked: list[str] = []
    exists = store.exists
    store.exists = lambda key: asked.append(key) or exists(key)  # type: ignore[method-assign, func-returns-value]
    assert PartitionLog(store, "runs", 0).position().next_number == 41
    assert len(asked) < 15
