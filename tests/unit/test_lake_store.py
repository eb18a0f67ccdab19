"""The local store: what fails is one sentence, what is written is flushed before it is named."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.errors import LakeError, LakeUnusable, LogError
from pipeline.lake.layout import Bucket, DataFile, parse_data_file, parse_entry_key, parse_rewritten
from pipeline.lake.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "lake", create=True)


def failing(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number), "/some/where")

    return fail


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "no-space"),
        (errno.EDQUOT, "no-space"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no-permission"),
        (errno.EMFILE, "too-many-files"),
        (errno.EIO, "io"),
    ],
)
def test_what_the_disk_refuses_is_one_sentence_with_a_hint(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    monkeypatch.setattr("os.fsync", failing(number))
    with pytest.raises(LakeError) as caught:
        store.put_if_absent("_log/x", b"data")
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)
    assert "/some/where" not in str(caught.value)
    assert not (Path(store.location) / "_log/x").exists()


def test_what_the_system_tells_obstore_is_told_in_the_same_words(store: Store) -> None:
    store.put_if_absent("_log/x/y", b"data")
    with pytest.raises(LakeError) as caught:
        store.get("_log/x/y/z")
    assert caught.value.code == "no-lake"


def test_a_file_has_its_name_only_after_its_content_is_on_the_disk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def note_fsync(descriptor: int) -> None:
        kind = "folder" if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir() else "file"
        steps.append(f"flush {kind}")
        fsync(descriptor)

    def note_link(source: Path, target: Path) -> None:
        steps.append("link")
        link(source, target)

    store.put_if_absent("_log/first", b"makes the folders")
    monkeypatch.setattr("os.fsync", note_fsync)
    monkeypatch.setattr("os.link", note_link)
    store.put_if_absent("_log/x", b"data")
    assert steps.index("flush file") < steps.index("link")
    assert "flush folder" in steps[steps.index("link") :]


def test_a_missing_object_is_named_by_its_key_only(store: Store) -> None:
    with pytest.raises(LakeError) as caught:
        store.get("_log/none")
    assert str(caught.value) == "_log/none is missing in the lake"


@pytest.mark.parametrize(
    "key",
    [
        "events/retention_class=default/expires=2026-10-21T00/a-b.c_d-0-000000000012.parquet",
        "dead_letters/retention_class=x_1/expires=2026-01-01T23/t-11-999999999999.parquet",
    ],
)
def test_a_data_files_key_is_parsed_and_formed_alike(key: str) -> None:
    file = parse_data_file(key)
    assert file is not None and file.key == key


@pytest.mark.parametrize(
    "key",
    [
        "events/retention_class=default/expires=2026-10-21T00/runs-0-12.parquet",
        "events/retention_class=default/expires=2026-10-21T24/runs-0-000000000012.parquet",
        "events/retention_class=default/expires=2026-13-21T00/runs-0-000000000012.parquet",
        "events/retention_class=../expires=2026-10-21T00/runs-0-000000000012.parquet",
        "events/retention_class=default/expires=2026-10-21T00/runs-01-000000000012.parquet",
        "events/retention_class=default/expires=2026-10-21T00/x/runs-0-000000000012.parquet",
        "other/retention_class=default/expires=2026-10-21T00/runs-0-000000000012.parquet",
        "events/retention_class=default/expires=2026-10-21T00/..-0-000000000012.parquet",
    ],
)
def test_what_no_slice_could_have_written_is_no_data_file(key: str) -> None:
    assert parse_data_file(key) is None


def test_no_name_leads_out_of_its_folder() -> None:
    with pytest.raises(LogError):
        DataFile(Bucket("events", "../x", "2026-10-21T00"), "runs", 0, 1)
    for topic in ("..", ".", "a/b", "", "a" * 250):
        with pytest.raises(LogError):
            DataFile(Bucket("events", "default", "2026-10-21T00"), topic, 0, 1)


def test_the_names_of_rewritten_files_and_entries_are_parsed() -> None:
    bucket = Bucket("events", "default", "2026-10-21T00")
    assert parse_rewritten(bucket.rewritten_key(7, 0)) == (bucket, 7)
    assert parse_data_file(bucket.rewritten_key(7, 0)) is None
    assert parse_entry_key("_log/runs/3/000000000007.commit") == ("runs", 3, 7, "commit")
    assert parse_entry_key("_log/runs/3/7.commit") is None


def test_a_lake_that_others_may_enter_or_that_is_anothers_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    Store.open(lake, create=True).put_if_absent("_log/x", b"")
    assert stat.S_IMODE(lake.stat().st_mode) == 0o700
    for mode in (0o750, 0o701):
        lake.chmod(mode)
        for create in (False, True):
            with pytest.raises(LakeUnusable) as caught:
                Store.open(lake, create=create)
            assert caught.value.code == "lake-mode"
    lake.chmod(0o700)
    Store.open(lake)
    monkeypatch.setattr(os, "geteuid", lambda: lake.stat().st_uid + 1)
    with pytest.raises(LakeUnusable) as caught:
        Store.open(lake)
    assert caught.value.code == "lake-owner"


def test_an_empty_folder_that_was_made_before_becomes_a_private_lake(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir(mode=0o755)
    Store.open(tmp_path / "lake", create=True)
    assert stat.S_IMODE((tmp_path / "lake").stat().st_mode) == 0o700
