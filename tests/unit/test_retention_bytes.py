"""What is gone is gone in every byte: lake, copies, temporary and cache folders; and after a shred
in copies that nobody knew of."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import run_samples
from obstore.store import LocalStore as Objects
from run_samples import NOW_US, Ingest, sliced

from pipeline.errors import LakeError
from pipeline.lake.keystore import ENVIRONMENT
from pipeline.lake.layout import Bucket, new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.query import query
from pipeline.lake.sealing import SEALED
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.overdue import OverdueState
from pipeline.records.page import page
from pipeline.records.reading import read_run
from pipeline.records.state import unpack
from pipeline.retention.copies import Copier
from pipeline.retention.exports import export_page, export_query
from pipeline.retention.ledger import Receipt
from pipeline.retention.policy import DAY_US, Policy
from pipeline.retention.sweep import Sweeper
from pipeline.slices import MaskedSlice
from pipeline.state.document import decode_document
from redactors import KeyRing

POLICY = Policy.model_validate(
    {
        "default": "default",
        "classes": {
            "debug": {"lifetime": "72h", "bucket": "hour"},
            "default": {"lifetime": "30d", "bucket": "day"},
            "secret": {"lifetime": "5d", "bucket": "day", "action": "seal-then-shred"},
            "later": {"lifetime": "20d", "bucket": "day", "action": "seal-then-shred"},
        },
    }
)
CANARIES = {name: f"canary{name}4711" for name in POLICY.classes}
DEBUG_GONE_US, SECRET_GONE_US = NOW_US + 4 * DAY_US, NOW_US + 6 * DAY_US
SQL = "SELECT run_id, kind, body FROM events ORDER BY ALL"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written for anybody lands below the test's folder."""
    for name, folder in {
        "TMPDIR": "tmp",
        "XDG_CACHE_HOME": "cache",
        "HOME": "home",
        ENVIRONMENT: "keys",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
        (tmp_path / folder).mkdir(mode=0o700)
    monkeypatch.setattr(run_samples, "POLICY", POLICY)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One open run with events of every class, each with its canary in all that a record takes
    over; the files of a bucket were merged, so that the inputs of that are gone too."""
    store = Store.open(tmp_path / "lake", create=True)
    ingest, offset = Ingest(store), 0
    events: list[dict[str, Any]] = [{"kind": "run.started", "body": {"trigger": "ticket"}}]
    for name, canary in CANARIES.items():
        events += [
            {"kind": "message", "class": name, "body": {"role": "user", "content": canary}},
            {"kind": "task.captured", "class": name, "body": {"task": canary, "source": canary}},
            {"kind": "input.declared", "class": name, "body": {"input": canary, "note": canary}},
        ]
    for end in (3, 5, len(events)):
        ingest.take(sealed(sliced(events, offset, end)))
        offset = end
    for bucket in {parse_bucket(file.path) for file in read_lake(store).files["events"]}:
        assert bucket is not None
        Rewriter(store, new_claim(), NOW_US).compact(bucket)
    return store


def sealed(masked: MaskedSlice) -> MaskedSlice:
    parts = []
    for part in masked.parts:
        if POLICY.classes[part.retention_class].action != "delete":
            schema = {**(part.rows.schema.metadata or {}), SEALED: b""}
            part = replace(part, rows=part.rows.replace_schema_metadata(schema))
        parts.append(part)
    return replace(masked, parts=tuple(parts))


def sweep(store: Store, now_us: int) -> Receipt:
    """A sweep on the machine on which the copies were made."""
    sweeper = Sweeper(
        store,
        new_claim(),
        "tester",
        lambda: now_us,
        KeyRing.generate(),
        host="here",
        open_state=OverdueState(store, lambda: now_us),
    )
    receipt = sweeper.sweep(with_strays=True)
    assert receipt is not None and receipt.is_complete
    return receipt


def texts(folder: Path) -> Iterator[str]:
    """All that is in files below a folder, as bytes and as whoever knows the format reads it."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield path.name + data.decode("latin-1")
        if data.startswith(b"PAR1"):
            file = pq.ParquetFile(pa.BufferReader(data))
            for name in file.schema_arrow.names:
                try:
                    yield str(pa.table(file.read(columns=[name])).to_pylist())
                except (OSError, pa.ArrowException):
                    continue  # it is sealed
        elif "_state" in path.parts:
            for entry in decode_document(data).attempts:
                yield str(unpack(entry.payload)) if entry.payload else ""


def found(folder: Path) -> set[str]:
    """The classes whose canaries are anywhere below a folder."""
    every = "\n".join(texts(folder))
    return {name for name, canary in CANARIES.items() if canary in every}


def test_the_search_finds_what_is_there(store: Store, tmp_path: Path) -> None:
    assert found(tmp_path) == {"debug", "default"}


def test_what_was_removed_is_in_no_byte_of_lake_copies_and_caches(
    store: Store, tmp_path: Path
) -> None:
    copier = Copier(store, "tester", "here", lambda: NOW_US)
    lake = read_lake(store)
    for suffix in ("parquet", "csv", "json"):
        export_query(lake, SQL, tmp_path / f"copy.{suffix}", copier)
    view = read_run(lake, "run")
    export_page(lake, view.files, page(view, NOW_US), tmp_path / "run.html", copier)
    store.put_tmp(f"_tmp/x/runs-0/1-expires={next(_debug_buckets(store)).expires}", b"half")
    assert found(tmp_path) == set(CANARIES)  # the copies are not sealed
    receipt = sweep(store, DEBUG_GONE_US)
    assert len(receipt.copies) == 4 and receipt.states
    assert found(tmp_path) == {"default"}
    kept = str(list(query(read_lake(store), SQL).rows))
    assert {name for name, canary in CANARIES.items() if canary in kept} == {
        "default", "secret", "later"
    }  # fmt: skip


def _debug_buckets(store: Store) -> Iterator[Bucket]:
    for file in read_lake(store).files["events"]:
        bucket = parse_bucket(file.path)
        if bucket is not None and bucket.retention_class == "debug":
            yield bucket


def test_after_a_shred_a_copy_that_nobody_knew_of_is_unreadable_and_other_buckets_read(
    store: Store, tmp_path: Path
) -> None:
    shutil.copytree(store.location, tmp_path / "unknown")
    sweep(store, SECRET_GONE_US)
    copy = Store(Objects(tmp_path / "unknown"), "copy")
    for file in (each for each in read_lake(copy).files["events"] if each.sealed):
        is_gone = "retention_class=secret/" in file.path
        data = copy.get(file.path)
        if is_gone:
            with pytest.raises(LakeError) as caught:
                from_parquet(data, keys=copy.bucket_keys)
            assert caught.value.code == "key-gone"
        else:
            assert CANARIES["later"] in str(from_parquet(data, keys=copy.bucket_keys)["body"])
    assert "secret" not in found(tmp_path)
    shown = str(list(query(read_lake(copy), SQL).rows))
    assert CANARIES["secret"] not in shown and CANARIES["later"] in shown


def test_after_a_shred_plain_readers_read_the_open_columns_of_the_other_buckets(
    store: Store, tmp_path: Path
) -> None:
    shutil.copytree(store.location, tmp_path / "unknown")
    sweep(store, SECRET_GONE_US)
    places = {Path(store.location): {"default", "later"}, tmp_path / "unknown": set(CANARIES)}
    for lake, classes in places.items():
        pattern = str(lake / "events" / "**" / "*.parquet")
        source = f"read_parquet('{pattern}', hive_partitioning = true)"
        kept = duckdb.sql(f"SELECT retention_class, any_value(run_id) FROM {source} GROUP BY 1")
        assert {row[0] for row in kept.fetchall()} == classes
        read = pl.scan_parquet(pattern, hive_partitioning=True)
        rows = sum(pq.read_metadata(file).num_rows for file in (lake / "events").rglob("*.parquet"))
        assert read.select("run_id", "kind").collect().height == rows
