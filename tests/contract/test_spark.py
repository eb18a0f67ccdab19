"""PySpark opens the very files that were committed, and sees the same rows."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_lake import demo_lake
from pyspark.sql import SparkSession

from pipeline.lake.datasets import dataset
from pipeline.lake.live import Lake
from pipeline.slices import Table

NOW_US = time.time_ns() // 1_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return demo_lake(tmp_path_factory.mktemp("demo") / "lake", NOW_US, runs=7)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.local.dir": str(folder),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    yield session
    session.stop()


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["run_id"], row["attempt"], row.get("sequence", 0)))


@pytest.mark.parametrize("table", ["events", "runs"])
def test_spark_sees_every_row_and_column_as_we_do(
    spark: SparkSession, lake: Lake, table: Table
) -> None:
    frame = spark.read.parquet(str(Path(lake.store.location) / table))
    expected = dataset(lake, table).to_table().to_pylist()
    assert expected
    assert in_order(frame.toArrow().to_pylist()) == in_order(expected)


def test_a_question_has_the_same_answer_in_spark(spark: SparkSession, lake: Lake) -> None:
    spark.read.parquet(str(Path(lake.store.location) / "runs")).createOrReplaceTempView("records")
    found = spark.sql(
        "SELECT run_id, gap.field FROM records LATERAL VIEW explode(missing) AS gap ORDER BY ALL"
    ).collect()
    expected = sorted(
        (row["run_id"], gap["field"])
        for row in dataset(lake, "runs").to_table().to_pylist()
        for gap in row["missing"]
    )
    assert [tuple(row) for row in found] == expected and expected
