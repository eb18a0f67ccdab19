"""Sealed buckets whose keys a key management service wraps: a real server, a real client."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from lake_samples import BUCKET, NOW_US, header, ingest, rows
from moto_server import moto_server, point_to

from pipeline.errors import LakeError
from pipeline.lake.keystore import ENVIRONMENT, SERVICE
from pipeline.lake.kms import AwsKms
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.query import query
from pipeline.lake.sealing import SEALED
from pipeline.lake.store import Store
from pipeline.retention.holds import Rows, add_hold, release_hold
from pipeline.retention.sweep import Sweeper
from pipeline.slices import MaskedSlice, Part

CANARY = "-".join(["canary", "4711"])
NEXT = "2026-10-22T00"
EVENTS = Bucket("events", "default", BUCKET)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with moto_server() as chosen:
        yield chosen


@pytest.fixture
def store(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Offsets 0 to 5 sealed in `BUCKET`, 6 to 8 in `NEXT`."""
    point_to(monkeypatch, port)
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "keys"))
    monkeypatch.setenv(SERVICE, "aws")
    store = Store.open(tmp_path / "lake", create=True)
    write(store, 0, 6, BUCKET)
    write(store, 6, 9, NEXT)
    return store


def write(store: Store, start: int, end: int, bucket: str) -> None:
    table = rows(range(start, end), body=json.dumps({"text": CANARY}))
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), SEALED: b""})
    part = Part("events", "default", bucket, table)
    ingest(store, MaskedSlice(header(start, end, counts={"events": end - start}), (part,)))


def sweep(store: Store) -> None:
    clock_us = lambda: EVENTS.starts_us  # noqa: E731
    receipt = Sweeper(store, new_claim(), "tester", clock_us).sweep(with_strays=True)
    assert receipt is not None and receipt.is_complete


def bodies(store: Store) -> dict[int, str | None]:
    sql = "SELECT kafka_offset, body ->> 'text' FROM events ORDER BY ALL"
    return dict(query(read_lake(store), sql).rows)


def keys_in_service(store: Store) -> list[str]:
    """The states of the keys made for this lake, by the tags on them."""
    client, states = boto3.client("kms"), []
    lake = store.get("_log/lake-id").decode()
    for page in client.get_paginator("list_keys").paginate():
        for key in page["Keys"]:
            tags = client.list_resource_tags(KeyId=key["KeyId"])["Tags"]
            if {"TagKey": "redactory-lake", "TagValue": lake} in tags:
                assert {"TagKey": "redactory-class", "TagValue": "default"} in tags
                about = client.describe_key(KeyId=key["KeyId"])
                states.append(about["KeyMetadata"]["KeyState"])
    return sorted(states)


def test_content_is_read_through_the_service_and_lies_nowhere(store: Store, tmp_path: Path) -> None:
    assert bodies(store) == dict.fromkeys(range(9), CANARY)
    assert keys_in_service(store) == ["Enabled", "Enabled"]
    documents = [path for path in (tmp_path / "keys").rglob("*") if path.is_file()]
    held = store.bucket_keys.get(*named(store, EVENTS))
    assert held and documents
    stored = b"".join(p.read_bytes() for p in [*documents, *tmp_path.rglob("*.parquet")])
    for key in held.values():
        assert key not in stored and key.hex().encode() not in stored
    assert CANARY.encode() not in stored


def named(store: Store, bucket: Bucket) -> tuple[str, str]:
    """Folder and name of the keys of the one file of a bucket."""
    (file,) = [f for f in read_lake(store).files["events"] if f.path.startswith(bucket.folder)]
    folder, _, name = file.sealed.rpartition("/")
    return folder, name


def test_a_copy_and_its_wrapped_keys_are_unreadable_once_the_bucket_is_shredded(
    store: Store, tmp_path: Path
) -> None:
    """AWS unwraps nothing from the moment on that a key's deletion is scheduled; this server does
    not go so far, so that its state is looked at."""
    (file,) = [f for f in read_lake(store).files["events"] if f.path.startswith(EVENTS.folder)]
    copy = store.get(file.path)
    document = tmp_path / "keys" / file.sealed
    sweep(store)
    assert keys_in_service(store) == ["Enabled", "PendingDeletion"]
    assert not document.exists()
    with pytest.raises(LakeError) as caught:
        from_parquet(copy, keys=store.bucket_keys)
    assert caught.value.code == "key-gone"
    assert bodies(store) == dict.fromkeys(range(6, 9), CANARY)


def test_a_hold_keeps_the_key_of_its_bucket_until_it_is_released(store: Store) -> None:
    about: dict[str, Any] = {"now_us": NOW_US, "by": "tester", "reason": "case 7"}
    hold = add_hold(store, Rows(runs=("run-1",)), owner="legal", review_on="2026-12-01", **about)
    sweep(store)
    assert {n: text for n, text in bodies(store).items() if n < 6} == {1: CANARY, 4: CANARY}
    assert keys_in_service(store) == ["Enabled", "Enabled"]
    release_hold(store, hold.number, **about)
    sweep(store)
    assert keys_in_service(store) == ["Enabled", "PendingDeletion"]


class Refusing(AwsKms):
    """The service as it answers somebody whom its rules do not let unwrap a class."""

    def _call(self, name: str, **words: Any) -> Any:
        if name == "decrypt":
            raise LakeError("not for you", code="key-denied")
        return super()._call(name, **words)


def test_whoever_may_not_unwrap_a_class_reads_its_open_columns(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.lake.kms.AwsKms", Refusing)
    assert bodies(Store.open(store.location)) == dict.fromkeys(range(9))


def test_wrapped_keys_of_one_file_are_no_good_for_another(store: Store, tmp_path: Path) -> None:
    folder, name = named(store, EVENTS)
    document = tmp_path / "keys" / folder / name
    (tmp_path / "keys" / folder / "other").write_bytes(document.read_bytes())
    with pytest.raises(LakeError):
        store.bucket_keys.get(folder, "other")


def test_a_service_that_is_away_is_one_sentence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(LakeError) as caught:
        Store.open(store.location).bucket_keys.get(*named(store, EVENTS))
    assert caught.value.code == "kms" and "\n" not in str(caught.value)
