"""The commit protocol for one writer, step by step, on a local directory."""

import os
import stat
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from lake_samples import NOW_US, masked_slice, now, rows

from pipeline import faultpoints
from pipeline.errors import LakeError, LogError, LostPartition
from pipeline.lake.commits import SliceCommitter, WrittenSlice
from pipeline.lake.entries import Commit
from pipeline.lake.layout import new_claim
from pipeline.lake.log import PartitionLog
from pipeline.lake.parquet import from_parquet, to_parquet
from pipeline.lake.store import Store
from pipeline.slices import MaskedSlice

FAULT_POINTS = [
    "intent.before", "intent.after", "tmp-write.before", "tmp-write.after", "flush.after",
    "publish.before", "publish.after", "commit.before", "commit.after",
]  # fmt: skip


class Killed(BaseException):
    """Stands for the process's end: nothing after it runs."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "lake", create=True)


def writer(store: Store, claim: str | None = None) -> SliceCommitter:
    return SliceCommitter(store, claim or new_claim(), now)


def ingest(committer: SliceCommitter, masked: MaskedSlice) -> Commit | None:
    written = committer.write(masked)
    return committer.commit(written) if written else None


def stored_offsets(store: Store) -> list[int]:
    """Offsets of every row of every committed file, in order."""
    log = PartitionLog(store, "runs", 0)
    last = log.position().next_number
    files = [file for n in range(1, last) for file in log.commit_at(n)[0].files]
    offsets: list[int] = []
    for file in files:
        offsets += [row["kafka_offset"] for row in from_parquet(store.get(file.path)).to_pylist()]
    return sorted(offsets)


def test_a_slice_becomes_one_file_per_bucket_and_one_commit(store: Store) -> None:
    entry = ingest(writer(store), masked_slice(5, 15, expires=("2026-10-21T00", "2026-10-22T00")))
    assert entry is not None
    assert [file.path for file in entry.files] == [
        "events/retention_class=default/expires=2026-10-21T00/runs-0-000000000001.parquet",
        "events/retention_class=default/expires=2026-10-22T00/runs-0-000000000001.parquet",
    ]
    assert (entry.start, entry.end, entry.number, [f.rows for f in entry.files]) == (
        5,
        15,
        1,
        [5, 5],
    )
    assert stored_offsets(store) == list(range(5, 15))


def test_entries_follow_one_another_and_link_by_digest(store: Store) -> None:
    committer = writer(store)
    for start in range(0, 50, 10):
        ingest(committer, masked_slice(start, start + 10))
    position = PartitionLog(store, "runs", 0).position()
    assert (position.next_number, position.next_offset, position.open_intent) == (6, 50, None)
    assert PartitionLog(store, "runs", 0).position(position) == position
    assert stored_offsets(store) == list(range(50))


def test_the_same_slice_gives_the_same_bytes() -> None:
    once, again = to_parquet(rows(range(100))), to_parquet(rows(range(100)))
    shuffled = rows(range(100)).sort_by([("event_id", "descending")])
    assert once == again == to_parquet(shuffled)


def test_a_file_is_sorted_compressed_and_has_a_bloom_filter_on_the_run(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(to_parquet(rows(range(30))))
    file = pq.ParquetFile(path)
    group = file.metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    statistics = columns["kafka_offset"].statistics
    assert statistics is not None and statistics.max == 29
    assert "RLE_DICTIONARY" in columns["run_id"].encodings
    assert "RLE_DICTIONARY" not in columns["body"].encodings
    keys = ["run_id", "attempt", "sequence", "kafka_offset"]
    leaves = [file.metadata.schema.column(c.column_index).path for c in group.sorting_columns]
    assert leaves == keys
    probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'run_id', ?)"
    with duckdb.connect() as session:
        excludes = [session.execute(probe, [str(path), r]).fetchall() for r in ("run-1", "other")]
    assert excludes == [[(False,)], [(True,)]]
    runs = [str(row["run_id"]) for row in file.read().to_pylist()]
    assert runs == sorted(runs)


@pytest.mark.parametrize("point", FAULT_POINTS)
@pytest.mark.parametrize("hit", [1, 2])
def test_a_writer_killed_at_any_step_is_taken_over_without_loss_or_duplicate(
    store: Store, point: str, hit: int
) -> None:
    buckets = ("2026-10-21T00", "2026-10-22T00")
    ingest(writer(store), masked_slice(0, 4, expires=buckets))
    left = hit

    def die(name: str) -> None:
        nonlocal left
        left -= name == point
        if left == 0:
            raise Killed

    faultpoints.install(die)
    first = writer(store)
    with pytest.raises(Killed):
        ingest(first, masked_slice(4, 8, expires=buckets))
        ingest(first, masked_slice(8, 12, expires=buckets))
    faultpoints.install(None)

    second = writer(store)
    position = PartitionLog(store, "runs", 0).position()
    for start in range(position.next_offset or 0, 12, 4):
        ingest(second, masked_slice(start, start + 4, expires=buckets))
    assert stored_offsets(store) == list(range(12))
    assert [item.key for item in store.walk("_tmp")] == []
    assert len(list(store.walk("events"))) == 6


def test_a_slice_that_was_committed_is_skipped(store: Store) -> None:
    ingest(writer(store), masked_slice(0, 10))
    ingest(writer(store), masked_slice(10, 20))
    assert writer(store).write(masked_slice(0, 10)) is None
    assert writer(store).write(masked_slice(10, 20)) is None


@pytest.mark.parametrize("bounds", [(2, 6), (0, 5), (5, 20), (0, 20)])
def test_a_slice_that_another_reader_has_cut_otherwise_is_a_lost_partition(
    store: Store, bounds: tuple[int, int]
) -> None:
    ingest(writer(store), masked_slice(0, 10))
    with pytest.raises(LostPartition):
        writer(store).write(masked_slice(*bounds))


def test_a_slice_that_leaves_a_hole_behind_the_log_is_refused(store: Store) -> None:
    ingest(writer(store), masked_slice(0, 10))
    with pytest.raises(LogError) as caught:
        writer(store).write(masked_slice(11, 20))
    assert caught.value.code == "not-contiguous"


def test_a_frozen_writer_finds_its_unfinished_files_taken_away(store: Store) -> None:
    frozen = writer(store)
    entries = []

    def overtake(name: str) -> None:
        if name == "publish.before":
            faultpoints.install(None)
            entries.append(ingest(writer(store), masked_slice(0, 10)))

    faultpoints.install(overtake)
    with pytest.raises(LostPartition):
        ingest(frozen, masked_slice(0, 10))
    assert entries[0] is not None
    assert stored_offsets(store) == list(range(10))


@pytest.mark.parametrize("point", ["intent.after", "tmp-write.before", "flush.before"])
def test_a_frozen_writer_publishes_nothing_of_a_slice_that_is_committed_and_gone(
    store: Store, point: str
) -> None:
    def overtake(name: str) -> None:
        if name == point:
            faultpoints.install(None)
            commit = ingest(writer(store), masked_slice(0, 10))
            assert commit is not None
            for file in commit.files:  # as a sweep or an erasure does
                store.delete(file.path)

    faultpoints.install(overtake)
    with pytest.raises(LostPartition):
        ingest(writer(store), masked_slice(0, 10))
    assert [item.key for item in store.walk("events")] == []


def test_a_frozen_writer_cannot_commit_after_another_did(store: Store) -> None:
    frozen = writer(store)
    written = frozen.write(masked_slice(0, 10))
    assert written is not None
    ingest(writer(store), masked_slice(0, 10))
    with pytest.raises(LostPartition):
        frozen.commit(written)


def test_a_writer_that_meets_anothers_intent_for_another_range_stops(store: Store) -> None:
    writer(store).write(masked_slice(0, 10))
    with pytest.raises(LostPartition):
        writer(store).write(masked_slice(0, 20))


def test_committing_twice_is_success(store: Store) -> None:
    committer = writer(store)
    written = committer.write(masked_slice(0, 10))
    assert written is not None
    assert committer.commit(written) == committer.commit(WrittenSlice.from_json(written.to_json()))


def test_a_file_published_before_with_other_rows_is_a_conflict(store: Store) -> None:
    written = writer(store).write(masked_slice(0, 10))
    assert written is not None
    path = Path(store.location) / written.files[0].path
    path.write_bytes(to_parquet(rows(range(3))))
    with pytest.raises(LakeError) as caught:
        writer(store).write(masked_slice(0, 10))
    assert caught.value.code == "conflicting-file"


def test_a_bucket_that_ended_before_the_redo_is_counted_and_not_written(store: Store) -> None:
    masked = masked_slice(0, 10, expires=("2026-10-21T00", "2026-12-01T00"))
    later = SliceCommitter(store, new_claim(), lambda: NOW_US + 40 * 86_400_000_000)
    entry = ingest(later, masked)
    assert entry is not None
    assert (entry.expired, [file.rows for file in entry.files]) == (5, [5])


def test_a_superseded_intent_gives_its_range_to_the_next_number(store: Store) -> None:
    crashed = writer(store)
    written = crashed.write(masked_slice(0, 10))
    assert written is not None
    entry = PartitionLog(store, "runs", 0).supersede("the key is gone", new_claim())
    assert (entry.start, entry.end, entry.files, entry.superseded) == (0, 0, (), "the key is gone")
    with pytest.raises(LostPartition):
        crashed.commit(written)
    follow = ingest(writer(store), masked_slice(0, 20))
    assert follow is not None and follow.number == 2
    assert stored_offsets(store) == list(range(20))


def test_files_and_folders_are_private(store: Store) -> None:
    before = os.umask(0o022)
    try:
        ingest(writer(store), masked_slice(0, 10))
    finally:
        os.umask(before)
    root = Path(store.location)
    for path in [root, *root.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_missing_directory_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeError) as caught:
        Store.open(tmp_path / "nowhere")
    assert caught.value.code == "no-lake"


def test_rewriting_an_unfinished_file_leaves_the_published_one_alone(store: Store) -> None:
    store.put_tmp("_tmp/c/file", b"first")
    assert store.publish("_tmp/c/file", "events/file")
    store.put_tmp("_tmp/c/file", b"second")
    assert not store.publish("_tmp/c/file", "events/file")
    assert store.get("events/file") == b"first"
