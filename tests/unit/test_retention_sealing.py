"""Sealed classes: content is read with the bucket's keys, and never after they are destroyed."""

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_samples import BUCKET, NOW_US, header, ingest, rows

from pipeline import faultpoints
from pipeline.errors import LakeError, UsageError
from pipeline.lake.datasets import dataset
from pipeline.lake.keystore import ENVIRONMENT, SERVICE, DirectoryKeyStore
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.query import query
from pipeline.lake.sealing import SEALED
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.retention.erase import Eraser
from pipeline.retention.holds import Rows, add_hold
from pipeline.retention.ledger import Receipt
from pipeline.retention.sweep import Sweeper
from pipeline.slices import MaskedSlice, Part
from redactors import KeyRing
from redactors.masks import SUBJECT_LABEL, Masks

NEXT = "2026-10-22T00"
EVENTS = Bucket("events", "default", BUCKET)
LATER = Bucket("events", "default", NEXT)
STRUCTURE = Checks(leaks=False, newer=False, processes=1)
CANARY = "-".join(["canary", "4711"])


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key store that every store opened meanwhile uses."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def store(tmp_path: Path, keys: Path) -> Store:
    """Offsets 0 to 5 sealed in `BUCKET`, 6 to 8 sealed in `NEXT`, 9 to 11 open in `NEXT`."""
    store = Store.open(tmp_path / "lake", create=True)
    write(store, 0, 6)
    write(store, 6, 9, NEXT)
    write(store, 9, 12, NEXT, sealed=False)
    return store


def write(
    store: Store, start: int, end: int, bucket: str = BUCKET, *, sealed: bool = True, **more: Any
) -> None:
    body = json.dumps({"text": CANARY if sealed else "open"})
    table = rows(range(start, end), body=body, **more)
    if sealed:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), SEALED: b""})
    part = Part("events", "default", bucket, table)
    ingest(store, MaskedSlice(header(start, end, counts={"events": end - start}), (part,)))


def sweep(store: Store, now_us: int = EVENTS.starts_us) -> Receipt | None:
    return Sweeper(store, new_claim(), "tester", lambda: now_us).sweep(with_strays=True)


def bodies(store: Store) -> dict[int, str | None]:
    sql = "SELECT kafka_offset, body ->> 'text' FROM events ORDER BY ALL"
    return dict(query(read_lake(store), sql).rows)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def findings(store: Store) -> set[str]:
    codes = {found.code for found in verify(store.location, STRUCTURE).findings}
    return codes - {"document-missing", "deadline-differs"}  # the samples'


def test_sealed_content_stands_nowhere_and_is_read_by_whoever_has_the_keys(
    store: Store, keys: Path
) -> None:
    lake = Path(store.location)
    assert not any(CANARY.encode() in path.read_bytes() for path in files_below(lake))
    assert bodies(store) == {n: CANARY if n < 9 else "open" for n in range(12)}
    assert dataset(read_lake(store), "events").to_table().num_rows == 12
    assert findings(store) == set()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files_below(keys))
    shutil.rmtree(keys)
    assert bodies(store) == {n: None if n < 9 else "open" for n in range(12)}
    assert findings(store) == set()


def test_no_key_and_no_wrapped_key_lies_in_the_lake(store: Store, keys: Path) -> None:
    held = [value for path in files_below(keys) for value in json.loads(path.read_text()).values()]
    assert held
    stored = b"".join(path.read_bytes() for path in files_below(Path(store.location)))
    assert not any(key.encode() in stored or bytes.fromhex(key) in stored for key in held)


def test_other_readers_read_the_open_columns_without_any_key(store: Store, keys: Path) -> None:
    shutil.rmtree(keys)
    path = Path(store.location) / EVENTS.folder / "runs-0-000000000001.parquet"
    assert pl.read_parquet(path, columns=["run_id", "kafka_offset"]).height == 6
    assert pq.ParquetFile(path).read(columns=["run_id"]).num_rows == 6
    found = duckdb.sql(f"SELECT count(DISTINCT run_id) FROM '{path}'").fetchall()
    assert found == [(3,)]
    with pytest.raises(duckdb.Error):
        duckdb.sql(f"SELECT body FROM '{path}'").fetchall()


def test_a_shredded_bucket_is_unreadable_in_every_copy_and_the_others_stay(
    store: Store, keys: Path, tmp_path: Path
) -> None:
    names = {path.name for path in files_below(keys)}
    shutil.copytree(Path(store.location) / EVENTS.folder, tmp_path / "copy")
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete
    (copied,) = files_below(tmp_path / "copy")
    with pytest.raises(LakeError) as caught:
        from_parquet(copied.read_bytes(), keys=DirectoryKeyStore(keys))
    assert caught.value.code == "key-gone"
    assert len(names) == 2 and len(files_below(keys)) == 1
    assert bodies(store) == {n: CANARY if n < 9 else "open" for n in range(6, 12)}


def test_held_rows_are_sealed_anew_and_the_old_keys_go(store: Store, keys: Path) -> None:
    before = {path.name for path in files_below(keys)}
    about = {"by": "tester", "reason": "case 7", "owner": "legal", "review_on": "2026-12-01"}
    add_hold(store, Rows(runs=("run-1",)), now_us=NOW_US, **about)
    sweep(store)
    assert {n: text for n, text in bodies(store).items() if n < 6} == {1: CANARY, 4: CANARY}
    assert not any(CANARY.encode() in p.read_bytes() for p in files_below(Path(store.location)))
    assert len({path.name for path in files_below(keys)} & before) == 1
    assert findings(store) == set()


def test_a_merged_file_is_sealed_if_any_of_its_rows_was(store: Store, keys: Path) -> None:
    Rewriter(store, new_claim(), NOW_US).compact(LATER)
    assert [bool(file.sealed) for file in read_lake(store).files["events"]] == [True, True]
    assert bodies(store) == {n: CANARY if n < 9 else "open" for n in range(12)}
    sweep(store, LATER.starts_us)
    assert files_below(keys) == [] and bodies(store) == {}


@pytest.mark.parametrize("point", ["rewrite-commit.before", "rewrite-commit.after", "remove.after"])
def test_a_crash_while_shredding_leaves_no_key_behind(store: Store, keys: Path, point: str) -> None:
    class Killed(BaseException):
        pass

    def kill(name: str) -> None:
        if name == point:
            raise Killed

    faultpoints.install(kill)
    with pytest.raises(Killed):
        sweep(store, LATER.starts_us)
    faultpoints.install(None)
    sweep(store, LATER.starts_us)
    assert files_below(keys) == [] and bodies(store) == {}


def test_two_lakes_never_share_a_buckets_keys(store: Store, keys: Path, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other", create=True)
    write(other, 0, 3)
    sweep(store)
    assert bodies(other) == dict.fromkeys(range(3), CANARY)


def test_a_key_store_inside_the_lake_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "lake" / "keys"))
    with pytest.raises(UsageError):
        Store.open(tmp_path / "lake", create=True)


def test_rows_that_are_to_be_sealed_stay_so_through_arrow(store: Store) -> None:
    table = rows(range(3)).replace_schema_metadata({SEALED: b""})
    assert pa.concat_tables([table, table]).filter(pa.array([True] * 6)).schema.metadata == {
        SEALED: b""
    }


def class_folder(keys: Path) -> Path:
    (found,) = keys.glob("*/default")
    return found


def test_a_group_that_is_let_into_the_folder_of_a_class_may_read_what_comes_later(
    store: Store, keys: Path
) -> None:
    for folder in (class_folder(keys), class_folder(keys) / "events"):
        folder.chmod(0o750)
    before = set(files_below(keys))
    write(store, 12, 15, "2026-10-23T00")
    (added,) = set(files_below(keys)) - before
    assert stat.S_IMODE(added.stat().st_mode) == 0o640
    assert stat.S_IMODE(added.parent.stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in before} == {0o600}


def test_no_key_is_put_where_anybody_may_look(store: Store, keys: Path) -> None:
    keys.chmod(0o705)
    with pytest.raises(LakeError) as caught:
        write(store, 12, 15)
    assert caught.value.code == "key-store-owner"


def test_whoever_may_not_have_the_keys_reads_the_open_columns(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert bodies(store) == {n: None if n < 9 else "open" for n in range(12)}


def test_an_unknown_key_service_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVICE, "nobody")
    with pytest.raises(UsageError):
        Store.open(store.location)


def test_an_erasure_destroys_no_key_but_those_of_the_files_it_removes(
    store: Store, keys: Path
) -> None:
    """Another writer of the bucket keeps the keys of its file before the file is there."""
    folder = class_folder(keys) / "events" / BUCKET
    (folder / "coming").write_text("{}")
    ring = KeyRing.generate()
    name = Masks([SUBJECT_LABEL], ring).hashed(SUBJECT_LABEL, b"ann")
    write(store, 12, 13, subjects=[name])
    eraser = Eraser(store, new_claim(), "tester", lambda: NOW_US, ring)
    receipt = eraser.erase(["ann"], "asked for")
    assert receipt is not None and receipt.is_complete
    assert (folder / "coming").exists() and len(files_below(folder)) == 2
    sweep(store)
    assert not files_below(folder)
