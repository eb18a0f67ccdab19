"""SQL over the live set, through the library and through the command line."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from lake_samples import BUCKET, DIGEST, ingest, masked_slice, rows
from typer.testing import CliRunner

from pipeline.cli import query as query_command
from pipeline.errors import UsageError
from pipeline.lake import Store, open_lake
from pipeline.lake.documents import store_policy
from pipeline.lake.parquet import to_parquet
from pipeline.lake.query import query
from pipeline.retention.policy import load_policy

app = typer.Typer()
query_command.register(app)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Twenty events in two buckets, two dead letters."""
    path = tmp_path / "it's a [lake]*"
    store = Store.open(path, create=True)
    store_policy(store, DIGEST, load_policy().document)
    ingest(store, masked_slice(0, 12, expires=(BUCKET, "2026-10-22T00"), dead=[3]))
    ingest(store, masked_slice(12, 22, dead=[15]))
    return path


def ask(lake: Path, sql: str) -> list[tuple[object, ...]]:
    return list(query(open_lake(lake), sql).rows)


def test_the_views_hold_every_committed_row_once(lake: Path) -> None:
    sql = "SELECT count(*), count(DISTINCT kafka_offset), min(kafka_offset) FROM events"
    assert ask(lake, sql) == [(20, 20, 0)]
    assert ask(lake, "SELECT kafka_offset FROM dead_letters ORDER BY 1") == [(3,), (15,)]


def test_hive_columns_are_text_in_every_view(lake: Path) -> None:
    sql = "SELECT DISTINCT retention_class, expires, typeof(expires) FROM events ORDER BY 2"
    assert ask(lake, sql) == [
        ("default", "2026-10-21T00", "VARCHAR"),
        ("default", "2026-10-22T00", "VARCHAR"),
    ]


def test_a_file_outside_the_live_set_is_not_read(lake: Path) -> None:
    folder = lake / f"events/retention_class=default/expires={BUCKET}"
    (folder / "runs-0-000000000001-late.parquet").write_bytes(to_parquet(rows([99])))
    (folder / "runs-0-000000000009.parquet").write_bytes(to_parquet(rows([100])))
    assert ask(lake, "SELECT max(kafka_offset) FROM events") == [(21,)]
    strays = open_lake(lake).strays()
    assert [path.rpartition("/")[2] for path in strays.outside] == [
        "runs-0-000000000001-late.parquet"
    ]
    assert [path.rpartition("/")[2] for path in strays.pending] == ["runs-0-000000000009.parquet"]


def test_an_empty_lake_has_empty_typed_views(tmp_path: Path) -> None:
    Store.open(tmp_path / "lake", create=True)
    assert ask(tmp_path / "lake", "SELECT * FROM events") == []
    described = {row[0]: row[1] for row in ask(tmp_path / "lake", "DESCRIBE events")}
    assert described["occurred_at"] == "TIMESTAMP WITH TIME ZONE"
    assert described["expires"] == "VARCHAR"


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO 'out.csv'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW events",
        "SET threads = 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
        "SELECT nothing FROM events",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_parquet('**/*.parquet')",
    ],
)
def test_anything_but_a_select_over_the_views_is_wrong_usage(lake: Path, sql: str) -> None:
    with pytest.raises(UsageError) as caught:
        ask(lake, sql)
    assert "\n" not in str(caught.value)


def test_a_failing_conversion_does_not_quote_the_stored_value(lake: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ask(lake, "SELECT CAST(body AS INTEGER) FROM events")
    assert "number" not in str(caught.value)


def test_json_output_is_a_list_of_row_objects(lake: Path) -> None:
    sql = (
        "SELECT kafka_offset, occurred_at, producer, subjects, 1 AS x, 2 AS x, 'nan'::DOUBLE AS n "
        "FROM events ORDER BY 1 LIMIT 2"
    )
    result = CliRunner().invoke(app, [sql, "--lake", str(lake), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [
        {
            "kafka_offset": offset,
            "occurred_at": at,
            "producer": {"name": "test", "version": "1"},
            "subjects": None,
            "x": 1,
            "x_2": 2,
            "n": None,
        }
        for offset, at in [(0, "2026-09-21T14:13:20Z"), (1, "2026-09-21T14:13:19.999999Z")]
    ]


def test_no_rows_are_an_empty_json_list(lake: Path) -> None:
    sql = "SELECT * FROM events WHERE run_id = 'none'"
    result = CliRunner().invoke(app, [sql, "--lake", str(lake), "--json"])
    assert json.loads(result.stdout) == []


def test_arrow_output_is_a_stream_with_types(lake: Path) -> None:
    sql = "SELECT kafka_offset, occurred_at, redactions FROM events ORDER BY 1"
    result = CliRunner().invoke(app, [sql, "--arrow"], env={"REDACTORY_LAKE": str(lake)})
    assert result.exit_code == 0
    found = pa.ipc.open_stream(result.stdout_bytes).read_all()
    assert found["kafka_offset"].to_pylist() == sorted(found["kafka_offset"].to_pylist())
    assert pa.types.is_timestamp(found.schema.field("occurred_at").type)
    assert pa.types.is_list(found.schema.field("redactions").type) and found.num_rows


def test_csv_output_quotes_what_needs_it(lake: Path) -> None:
    sql = "SELECT body, producer, NULL AS nothing FROM events ORDER BY kafka_offset LIMIT 1"
    result = CliRunner().invoke(app, [sql, "--csv"], env={"REDACTORY_LAKE": str(lake)})
    assert result.stdout == (
        "body,producer,nothing\n"
        '"{""text"":""number 0""}","{""name"": ""test"", ""version"": ""1""}",\n'
    )


def test_a_terminal_gets_no_control_characters_from_stored_text(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "lake", create=True)
    store_policy(store, DIGEST, load_policy().document)
    ingest(store, masked_slice(0, 1, columns={"body": '"\x1b]0;title\x07 [bold]\x9b31m"'}))
    result = CliRunner().invoke(app, ["FROM events SELECT body", "--lake", str(tmp_path / "lake")])
    assert "\\x1b]0;title\\x07 [bold]\\x9b31m" in result.stdout


def test_the_table_says_when_it_leaves_rows_out(lake: Path) -> None:
    sql = "SELECT a.run_id FROM events a, events b"
    result = CliRunner().invoke(app, [sql, "--lake", str(lake)])
    assert "only the first 100 rows" in result.stderr
