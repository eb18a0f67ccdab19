"""The views, the worked questions, and the same records for every reader."""

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from demo_lake import demo_lake, ingest_events

from pipeline.demo_agent.agent import demo_events
from pipeline.errors import LakeError
from pipeline.lake.dictionary import dictionary
from pipeline.lake.live import Lake
from pipeline.lake.query import VIEW_NAMES, query
from pipeline.lake.tables import full_schema

NOW_US = time.time_ns() // 1_000
DOCS = Path(__file__).parents[2] / "docs"
QUESTIONS = re.findall(r"## (.+?)\n.*?```sql\n(.+?)```", (DOCS / "questions.md").read_text(), re.S)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return demo_lake(tmp_path_factory.mktemp("demo") / "lake", NOW_US)


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The first run of the demo, each of its events sent twice."""
    run = [event for event in demo_events(1, 1, NOW_US) for _ in range(2)]
    return ingest_events(tmp_path_factory.mktemp("doubled") / "lake", run, NOW_US)


def rows(lake: Lake, sql: str) -> list[dict[str, Any]]:
    result = query(lake, sql)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def count(lake: Lake, view: str) -> int:
    (row,) = rows(lake, f"SELECT count(*) AS n FROM {view}")
    return int(row["n"])


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize(("title", "sql"), QUESTIONS, ids=[title for title, _ in QUESTIONS])
def test_a_worked_question_has_an_answer(lake: Lake, title: str, sql: str) -> None:
    assert rows(lake, sql), "the demo has something for each of them"


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_every_view_can_be_read_and_is_described(lake: Lake, view: str) -> None:
    assert view in dictionary() and rows(lake, f"SELECT * FROM {view} LIMIT 1") is not None


def test_the_dictionary_in_the_docs_is_that_of_the_schemas() -> None:
    assert (DOCS / "tables.md").read_text() == dictionary()


def test_each_attempt_has_one_record_and_its_events_are_counted(lake: Lake) -> None:
    counted = rows(
        lake,
        "SELECT run_id, attempt, count(*) AS n FROM events GROUP BY ALL ORDER BY run_id, attempt",
    )
    recorded = rows(lake, "SELECT run_id, attempt, events AS n FROM runs ORDER BY run_id, attempt")
    assert counted == recorded


def test_calls_are_paired_and_effects_have_a_state(lake: Lake) -> None:
    (tools,) = rows(lake, "SELECT count(*) AS n, count(duration_ms) AS paired FROM tool_calls")
    (sent,) = rows(lake, "SELECT count(*) AS n FROM events WHERE kind = 'tool.requested'")
    assert tools == {"n": sent["n"], "paired": sent["n"]}
    by_state = rows(lake, "SELECT state, count(*) AS n FROM effects GROUP BY state")
    (recorded,) = rows(
        lake, "SELECT sum(effects.completed) AS c, sum(effects.unknown) AS u FROM runs"
    )
    assert {row["state"]: row["n"] for row in by_state} == {
        "completed": recorded["c"],
        "unknown": recorded["u"],
    }


@pytest.mark.parametrize(
    "view", ["events", "runs", "model_calls", "tool_calls", "effects", "messages", "redactions"]
)
def test_an_event_that_was_sent_twice_is_shown_once(lake: Lake, doubled: Lake, view: str) -> None:
    (first,) = rows(doubled, "SELECT run_id FROM runs")
    once = f"(SELECT * FROM {view} WHERE run_id = '{first['run_id']}')"
    (run,) = rows(doubled, "SELECT events, doubled FROM runs")
    assert run["doubled"] == run["events"] == count(doubled, "events")
    assert count(doubled, "stored_events") == 2 * run["events"]
    assert count(doubled, view) == count(doubled, f"(SELECT DISTINCT * FROM {once})") > 0


def test_a_late_event_leaves_one_row_in_runs_and_two_versions(tmp_path: Path) -> None:
    run = list(demo_events(1, 1, NOW_US))
    late = replace(run[-2], event_id="late", sequence=len(run))
    lake = ingest_events(tmp_path / "lake", [*run, late], NOW_US, slice_records=len(run))
    assert count(lake, "run_versions") == 2
    assert rows(lake, "SELECT version, events FROM runs") == [
        {"version": 2, "events": len(run) + 1}
    ]


FLAT = ("run_id", "attempt", "version", "status", "complete", "events", "holes", "retention_class")


def test_duckdb_polars_pyarrow_and_pandas_see_the_same_records(lake: Lake) -> None:
    folder = f"{lake.store.location}/runs"
    expected = sorted(tuple(row[c] for c in FLAT) for row in rows(lake, "SELECT * FROM runs"))
    glob = f"{folder}/**/*.parquet"
    by_duckdb = duckdb.sql(f"SELECT {', '.join(FLAT)} FROM '{glob}'").fetchall()
    assert sorted(by_duckdb) == expected
    by_polars = pl.read_parquet(glob, hive_partitioning=True).select(FLAT).rows()
    assert sorted(by_polars) == expected
    arrow = pads.dataset(folder, schema=full_schema("runs"), partitioning="hive").to_table()
    assert sorted(tuple(row[c] for c in FLAT) for row in arrow.to_pylist()) == expected
    frame = pd.read_parquet(folder)
    assert sorted(tuple(row) for row in frame[list(FLAT)].itertuples(index=False)) == expected
    nested = {row["run_id"]: row["task"] for row in arrow.to_pylist() if row["attempt"] == 1}
    assert nested == {
        row["run_id"]: row["task"] for row in rows(lake, "SELECT * FROM runs WHERE attempt = 1")
    }


def test_files_without_a_newer_column_stay_readable(lake: Lake, tmp_path: Path) -> None:
    """As an older version wrote them: the column is null, and keeps its type."""
    old = pads.dataset(f"{lake.store.location}/runs").to_table().drop_columns(["effects"])
    folder = tmp_path / "old"
    pads.write_dataset(old, folder, format="parquet")
    new = pads.dataset(f"{lake.store.location}/runs").to_table()
    pads.write_dataset(new, tmp_path / "new", format="parquet")
    found = duckdb.sql(
        f"SELECT effects FROM read_parquet(['{folder}/*', '{tmp_path}/new/*'], union_by_name=true)"
    ).to_arrow_table()
    assert found.num_rows == 2 * new.num_rows
    assert found["effects"].null_count == new.num_rows
    assert pa.types.is_struct(found["effects"].type)


def test_only_files_of_tables_that_a_query_reads_are_opened(tmp_path: Path) -> None:
    lake = ingest_events(tmp_path / "lake", list(demo_events(1, 1, NOW_US)), NOW_US)
    for file in lake.files["events"]:
        lake.store.delete(file.path)
    assert count(lake, "runs") == 1
    with pytest.raises(LakeError):
        count(lake, "tool_calls")


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT count(*) AS n FROM "Events"',
        "WITH e AS (FROM main.EVENTS) SELECT count(*) AS n FROM e",
        "SELECT count(*) AS n FROM runs JOIN events USING (run_id, attempt)",
        "SELECT count(*) AS n FROM query('FROM ev' || 'ents')",
        "SELECT (SELECT count(*) FROM events) AS n",
    ],
)
def test_a_table_has_its_rows_however_a_query_names_it(lake: Lake, sql: str) -> None:
    assert rows(lake, sql) == [{"n": count(lake, "events")}]
