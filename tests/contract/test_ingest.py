"""The main path on a real broker: what goes in comes out once, in order, masked and declared."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer
from running import ingest, kill, query, redactory, start, succeed, until

from schemas import RunEvent, encode, encode_json


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def _event(index: int, body: object, run: str = "run-1") -> RunEvent:
    return RunEvent(
        event_id=f"event-{index}",
        run_id=run,
        sequence=index,
        occurred_at=time.time_ns() // 1000,
        kind="message",
        body=json.dumps(body),
    )


def _produce(
    bootstrap: str, topic: str, values: list[bytes | None], key: bytes | None = b"run-1"
) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.max.bytes": 9_000_000}
    )
    for value in values:
        producer.produce(topic, value=value, key=key)
    assert producer.flush(30) == 0


def test_events_come_out_once_in_order_and_masked(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(partitions=2), tmp_path / "lake"
    password = "-".join(["blue", "otter", "7731"])
    bodies = [{"n": n, "password": password, "note": "kept as it is"} for n in range(500)]
    _produce(bootstrap, topic, [encode(_event(n, body)) for n, body in enumerate(bodies)])
    report = ingest(bootstrap, topic, lake, keys, "--slice-records", "120", "--workers", "2")
    assert report["counts"]["events"] == 500
    rows = query(lake, "SELECT body, redactions FROM events ORDER BY kafka_offset")
    assert [json.loads(row["body"])["n"] for row in rows] == list(range(500))
    assert all(json.loads(row["body"])["note"] == "kept as it is" for row in rows)
    assert not any(password in row["body"] for row in rows)
    assert all(row["redactions"][0]["path"] == "/password" for row in rows)
    succeed("verify", "--lake", lake, "--keys", keys)


def test_a_second_ingest_goes_on_where_the_first_ended(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(), tmp_path / "lake"
    _produce(bootstrap, topic, [encode(_event(n, {})) for n in range(10)])
    assert ingest(bootstrap, topic, lake, keys)["counts"]["events"] == 10
    assert ingest(bootstrap, topic, lake, keys)["counts"].get("events", 0) == 0
    _produce(bootstrap, topic, [encode(_event(n, {})) for n in range(10, 15)])
    assert ingest(bootstrap, topic, lake, keys)["counts"]["events"] == 5
    assert query(lake, "SELECT count(*) AS n, count(DISTINCT kafka_offset) AS d FROM events") == [
        {"n": 15, "d": 15}
    ]


BAD_VALUES: dict[str, Callable[[], bytes | None]] = {
    "truncated-avro": lambda: encode(_event(1, {"x": "y" * 50}))[:-20],
    "no-registry": lambda: b"\x00\x00\x00\x30\x39" + b"some bytes",
    "invalid-json": lambda: b'{"event_id": "e", ',
    "empty-value": lambda: b"",
    "too-large": lambda: encode_json(_event(1, {}))[:-1] + b" " * 5_000_000 + b"}",
    "invalid-utf8": lambda: encode_json(_event(1, {"x": "MARK"})).replace(b"MARK", b"\xff\xfe"),
    "not-an-event": lambda: b'{"event_id": 7}',
}


def test_bad_input_becomes_a_dead_letter_with_a_code_and_nothing_around_it_is_lost(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(max_message_bytes="9000000"), tmp_path / "lake"
    for index, make in enumerate(BAD_VALUES.values()):
        _produce(bootstrap, topic, [encode(_event(index, {})), make()])
    _produce(bootstrap, topic, [encode(_event(99, {"null": "key"}))], key=None)
    unknown = json.loads(encode_json(_event(98, {"a": 1})))
    unknown["kind"] = "telepathy.received"
    _produce(bootstrap, topic, [json.dumps(unknown).encode()])
    done = redactory(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake),
        *("--keys", keys, "--until-caught-up", "--json"),
    )
    assert done.returncode == 0, done.stderr
    letters = query(lake, "SELECT code, kafka_offset, length_bytes FROM dead_letters ORDER BY 2")
    assert [row["code"] for row in letters] == [*BAD_VALUES, "null-key"]
    assert query(lake, "SELECT count(*) AS n FROM events WHERE kind <> 'other'") == [
        {"n": len(BAD_VALUES)}
    ]
    other = query(lake, "SELECT kind_name FROM events WHERE kind = 'other'")
    assert other == [{"kind_name": "telepathy.received"}]
    assert "some bytes" not in done.stdout + done.stderr
    succeed("verify", "--lake", lake, "--keys", keys)


def test_killed_in_the_middle_it_loses_and_doubles_nothing(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(partitions=3), tmp_path / "lake"
    for part in range(3):
        events = [encode(_event(n, {"n": n}, f"run-{part}")) for n in range(4000)]
        _produce(bootstrap, topic, events, key=f"run-{part}".encode())
    running = start(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake),
        *("--keys", keys, "--until-caught-up", "--slice-records", "150"),
    )
    log = lake / "_log" / topic
    until(lambda: len(list(log.rglob("*.commit"))) >= 5, "five commits")
    kill(running)
    assert sum(1 for _ in log.rglob("*.commit")) < 3 * 4000 / 150, "it was killed in the middle"
    ingest(bootstrap, topic, lake, keys)
    counted = query(
        lake,
        "SELECT count(*) AS n, count(DISTINCT (kafka_partition, kafka_offset)) AS d FROM events",
    )
    assert counted == [{"n": 12000, "d": 12000}]
    succeed("verify", "--lake", lake, "--keys", keys, "--against-topic", "--bootstrap", bootstrap)


def test_no_canary_is_left_on_any_disk(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake, work = make_topic(partitions=2), tmp_path / "lake", tmp_path / "work"
    work.mkdir()
    rng = random.Random(20)
    canaries = ["".join(rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=24)) for _ in range(100)]
    shapes: list[Callable[[str], object]] = [
        lambda c: {"password": c},
        lambda c: {"headers": {"Authorization": f"Bearer {c}"}},
        lambda c: {"out": f"export API_KEY={c}\nnext line"},
        lambda c: {"args": json.dumps({"client_secret": c})},
        lambda c: {"url": f"postgres://app:{c}@db.internal/orders"},
        lambda c: {"headers": [{"name": "Cookie", "value": f"session={c}; theme=dark"}]},
    ]
    events = [_event(n, shapes[n % len(shapes)](c)) for n, c in enumerate(canaries)]
    broken = [f'{{"secret": "{c}", '.encode() for c in canaries[:10]]
    _produce(bootstrap, topic, [*map(encode, events), *broken])
    done = redactory(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake),
        *("--keys", keys, "--until-caught-up"),
        TMPDIR=str(work),
        HOME=str(work),
    )
    assert done.returncode == 0, done.stderr
    assert "made key" in done.stderr
    rows = query(lake, "SELECT body, redactions FROM events")
    assert len(rows) == 100
    everything = [done.stdout, done.stderr, *map(json.dumps, rows)]
    for folder in (lake, work):
        everything += [f.read_bytes().decode("latin-1") for f in folder.rglob("*") if f.is_file()]
    assert [c for c in canaries if any(c in text for text in everything)] == []


def test_pyarrow_duckdb_and_polars_read_the_same(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(), tmp_path / "lake"
    events = [_event(n, {"mail": f"p{n}@example.com"}) for n in range(50)]
    _produce(bootstrap, topic, [encode(event) for event in events])
    ingest(bootstrap, topic, lake, keys, "--slice-records", "20")
    glob = f"{lake}/events/**/*.parquet"
    columns = ["event_id", "sequence", "body", "retention_class", "expires", "occurred_at"]
    by_duckdb = duckdb.sql(
        f"SELECT {', '.join(columns)} FROM read_parquet('{glob}', hive_partitioning = true, "
        "hive_types = {'retention_class': VARCHAR, 'expires': VARCHAR}) ORDER BY sequence"
    ).pl()
    by_polars = (
        pl.scan_parquet(
            glob,
            hive_partitioning=True,
            hive_schema={"retention_class": pl.String, "expires": pl.String},
        )
        .select(columns)
        .sort("sequence")
        .collect()
    )
    import pyarrow as pa

    hive = ds.partitioning(
        pa.schema([("retention_class", pa.string()), ("expires", pa.string())]), flavor="hive"
    )
    by_arrow = pl.from_arrow(
        ds.dataset(lake / "events", partitioning=hive).to_table(columns=columns).sort_by("sequence")
    )
    assert by_duckdb.height == 50
    assert by_duckdb.rows() == by_polars.rows() == by_arrow.rows()
