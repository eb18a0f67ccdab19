"""An event that its producer sent twice is stored twice and shown once."""

from pathlib import Path
from typing import Any

import pytest
from run_samples import NOW_US, Ingest

from pipeline.lake.checkpoints import cut_all
from pipeline.lake.doubles import doubled_ranges
from pipeline.lake.layout import new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.query import query
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter, crowded_buckets

ONCE: list[dict[str, Any]] = [{"sequence": n, "event_id": f"e{n}"} for n in range(4)]
END = {"sequence": 4, "event_id": "end", "kind": "run.finished", "body": {"status": "completed"}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "lake", create=True)


def offsets(store: Store, view: str) -> list[int]:
    found = query(read_lake(store), f"SELECT kafka_offset FROM {view} ORDER BY 1")
    return [row[0] for row in found.rows]


def test_nothing_is_looked_for_where_nothing_was_sent_twice(store: Store) -> None:
    Ingest(store).take_all([*ONCE, END], cuts=[2])
    assert doubled_ranges(read_lake(store)) == ()
    assert offsets(store, "events") == offsets(store, "stored_events") == [0, 1, 2, 3, 4]


def test_the_first_of_two_is_shown_whatever_slice_the_second_came_in(store: Store) -> None:
    events = [ONCE[0], ONCE[1], ONCE[0], ONCE[1], ONCE[2], ONCE[3], ONCE[1], END]
    Ingest(store).take_all(events, cuts=[2, 4, 6])
    ranges = [(each.start, each.end) for each in doubled_ranges(read_lake(store))]
    assert ranges == [(2, 4), (6, 8)], "the slices that hold a second one"
    assert offsets(store, "events") == [0, 1, 4, 5, 7]
    assert offsets(store, "stored_events") == list(range(8))


def test_the_same_number_with_another_id_is_another_event(store: Store) -> None:
    Ingest(store).take_all([ONCE[0], ONCE[0] | {"event_id": "other"}, END])
    assert offsets(store, "events") == [0, 1, 2]


def test_that_stays_so_when_files_are_merged_and_the_log_is_cut(store: Store) -> None:
    Ingest(store).take_all([*ONCE, ONCE[2], END], cuts=[2, 4])
    for bucket in crowded_buckets(read_lake(store), 2):
        Rewriter(store, new_claim(), NOW_US).compact(bucket)
    assert cut_all(store)
    assert read_lake(store).histories[0].commits == ()
    assert offsets(store, "events") == [0, 1, 2, 3, 5]
