"""Other readers see what was committed, with the same types and values, hive columns included."""

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as pads
import pytest
from lake_samples import ingest, masked_slice

from pipeline.lake import Store, open_lake
from pipeline.lake.datasets import dataset
from pipeline.lake.query import query
from pipeline.lake.tables import DECLARED, full_schema
from pipeline.slices import Table

REDACTION = {
    "path": "/text",
    "rule": "email",
    "label": "EMAIL",
    "action": "hash",
    "span_start": 3,
    "span_end": 9,
    "length": None,
    "layers": ["json"],
    "by": "pipeline",
}
TABLES: list[Table] = ["events", "dead_letters"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two buckets, dead letters, rows with and without redactions, an all-null column."""
    store = Store.open(tmp_path / "lake", create=True)
    ingest(store, masked_slice(0, 9, expires=("2026-10-21T00", "2026-10-22T00"), dead=[2]))
    ingest(
        store,
        masked_slice(9, 14, dead=[13], columns={"redactions": [REDACTION], "subjects": ["a", "b"]}),
    )
    return tmp_path / "lake"


def by_offset(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["kafka_offset"]))


def expected(lake: Path, table: Table) -> list[dict[str, Any]]:
    """The live rows by our own reading of the log."""
    rows = by_offset(dataset(open_lake(lake), table).to_table().to_pylist())
    assert [row["kafka_offset"] for row in rows] == (
        [2, 13] if table == "dead_letters" else [o for o in range(13) if o != 2]
    )
    assert {row["expires"] for row in rows} <= {"2026-10-21T00", "2026-10-22T00"}
    return rows


@pytest.mark.parametrize("table", TABLES)
def test_pyarrow_reads_the_folder_as_we_do(lake: Path, table: Table) -> None:
    found = pads.dataset(lake / table, schema=full_schema(table), partitioning="hive").to_table()
    assert by_offset(found.to_pylist()) == expected(lake, table)


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_reads_the_folder_as_we_do(lake: Path, table: Table) -> None:
    options = "hive_partitioning = true, hive_types_autocast = false"
    with duckdb.connect() as session:
        found = session.sql(f"FROM read_parquet('{lake}/{table}/**/*.parquet', {options})")
        assert found is not None
        rows = found.to_arrow_table().to_pylist()
    assert by_offset(rows) == expected(lake, table)


@pytest.mark.parametrize("table", TABLES)
def test_polars_reads_the_folder_as_we_do(lake: Path, table: Table) -> None:
    frame = pl.read_parquet(
        f"{lake}/{table}/**/*.parquet",
        hive_partitioning=True,
        hive_schema={"retention_class": pl.String, "expires": pl.String},
    )
    assert by_offset(frame.to_dicts()) == expected(lake, table)


@pytest.mark.parametrize("table", TABLES)
def test_the_views_of_query_hold_the_same_rows(lake: Path, table: Table) -> None:
    result = query(open_lake(lake), f"SELECT * FROM {table}")
    found = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    assert by_offset(found) == expected(lake, table)


@pytest.mark.parametrize("table", TABLES)
def test_every_file_carries_the_declared_types_also_where_all_is_null(
    lake: Path, table: Table
) -> None:
    for file in open_lake(lake).files[table]:
        assert pads.dataset(lake / file.path).schema.equals(DECLARED[table])
