"""The tables' columns are a contract: names and types change only by adding."""

import io
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas import RunEvent
from schemas.parquet import DEAD_LETTERS, EVENTS

TIME = "timestamp[us, tz=UTC]"
MEMBER_COLUMNS = {"record_index": "int32", "record_events": "int32"}
EVENT_COLUMNS = {
    "event_id": "string",
    "run_id": "string",
    "parent_run_id": "string",
    "retry_of": "string",
    "attempt": "int32",
    "sequence": "int64",
    "occurred_at": TIME,
    "captured_at": TIME,
    "kind": "string",
    "kind_name": "string",
    "name": "string",
    "call_id": "string",
    "idempotency_key": "string",
    "body": "string",
    "subjects": "list<element: string>",
    "producer": "struct<name: string, version: string>",
    "redactions": (
        "list<element: struct<path: string, rule: string, label: string, action: string, "
        "span_start: int32, span_end: int32, length: int32, layers: list<element: string>, "
        "by: string>>"
    ),
    "ruleset": "string",
    "key_id": "string",
    "kafka_topic": "string",
    "kafka_partition": "int32",
    "kafka_offset": "int64",
    "ingested_at": TIME,
    "deadline": TIME,
    "requested_class": "string",
    "retention_from": "string",
    **MEMBER_COLUMNS,
}
DEAD_LETTER_COLUMNS = {
    "kafka_topic": "string",
    "kafka_partition": "int32",
    "kafka_offset": "int64",
    "code": "string",
    "stage": "string",
    "length_bytes": "int64",
    "payload_hmac": "string",
    "header_names": "list<element: string>",
    "kafka_timestamp": TIME,
    "ruleset": "string",
    "key_id": "string",
    "ingested_at": TIME,
    "deadline": TIME,
    **MEMBER_COLUMNS,
}
TABLES = [
    pytest.param(EVENTS, EVENT_COLUMNS, id="events"),
    pytest.param(DEAD_LETTERS, DEAD_LETTER_COLUMNS, id="dead_letters"),
]


@pytest.mark.parametrize(("schema", "columns"), TABLES)
def test_columns_and_types_are_the_contract(schema: pa.Schema, columns: dict[str, str]) -> None:
    assert {field.name: str(field.type) for field in schema} == columns


@pytest.mark.parametrize(("schema", "columns"), TABLES)
def test_every_column_is_described(schema: pa.Schema, columns: dict[str, str]) -> None:
    for field in schema:
        assert (field.metadata or {}).get(b"description"), field.name


@pytest.mark.parametrize(("schema", "columns"), TABLES)
def test_no_column_repeats_a_hive_key(schema: pa.Schema, columns: dict[str, str]) -> None:
    assert not {"retention_class", "expires"} & set(schema.names)


@pytest.mark.parametrize(("schema", "columns"), TABLES)
def test_an_empty_file_keeps_the_declared_schema(
    schema: pa.Schema, columns: dict[str, str]
) -> None:
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink)
    assert pq.read_schema(io.BytesIO(sink.getvalue())).equals(schema, check_metadata=True)


def test_all_of_an_event_has_a_column() -> None:
    stored_otherwise = {"retention_class": "requested_class"}
    fields = {stored_otherwise.get(name, name) for name in RunEvent.__dataclass_fields__}
    assert fields <= set(EVENTS.names)


def test_polars_and_duckdb_see_the_same_columns(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pq.write_table(EVENTS.empty_table(), path)
    assert pl.read_parquet(path).columns == EVENTS.names
    described = duckdb.connect().execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)])
    assert [row[0] for row in described.fetchall()] == EVENTS.names
