"""Reads of content: written down before anything is shown, for a purpose where one is wanted."""

from pathlib import Path

import pytest
from lake_samples import NOW_US, ingest, masked_slice
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import LakeError, UsageError
from pipeline.lake.documents import store_policy
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.retention.access import note_read, read_reads
from pipeline.retention.exports import of_classes
from pipeline.retention.policy import Policy

run = CliRunner().invoke
SQL = "SELECT count(*) FROM events"


def policy(*purposes: str) -> Policy:
    classes = {"default": {"lifetime": "30d", "bucket": "day", "purposes": purposes}}
    return Policy.model_validate({"default": "default", "classes": classes})


def lake_under(tmp_path: Path, *policies: Policy) -> Store:
    """A lake with a partition under each policy."""
    store = Store.open(tmp_path / "lake", create=True)
    for partition, each in enumerate(policies):
        store_policy(store, each.digest, each.document)
        ingest(store, masked_slice(0, 3, partition=partition, ruleset=each.digest))
    return store


def note(store: Store, purpose: str | None, classes: tuple[str, ...] = ()) -> None:
    lake = of_classes(read_lake(store), classes)
    note_read(lake, now_us=NOW_US, by="tester", command="query", purpose=purpose)


def test_a_class_without_purposes_is_read_freely_and_written_down(tmp_path: Path) -> None:
    store = lake_under(tmp_path, policy())
    note(store, None)
    (read,) = read_reads(store)
    assert (read.by, read.command, read.classes, read.purpose) == (
        "tester",
        "query",
        ("default",),
        "",
    )


@pytest.mark.parametrize("purpose", [None, "", "curiosity"])
def test_a_class_with_purposes_is_not_read_for_another(tmp_path: Path, purpose: str | None) -> None:
    store = lake_under(tmp_path, policy("incident", "audit"))
    with pytest.raises(UsageError, match="audit, incident"):
        note(store, purpose)
    assert list(read_reads(store)) == []
    note(store, "audit")
    assert [read.purpose for read in read_reads(store)] == ["audit"]
    note(store, None, ("other",))  # nothing of the class is read


def test_where_policies_differ_only_what_all_allow_is_allowed(tmp_path: Path) -> None:
    store = lake_under(tmp_path, policy("incident", "audit"), policy("audit"), policy())
    note(store, "audit")
    with pytest.raises(UsageError):
        note(store, "incident")
    other = lake_under(tmp_path / "other", policy("incident"), policy("audit"))
    for purpose in ("incident", "audit"):
        with pytest.raises(UsageError):
            note(other, purpose)


def test_without_the_policy_nobody_can_say_and_nothing_is_read(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "lake", create=True)
    ingest(store, masked_slice(0, 3))
    with pytest.raises(LakeError):
        note(store, None)


def test_what_cannot_be_written_down_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lake_under(tmp_path, policy())

    def refuse(self: Store, key: str, data: bytes) -> bool:
        raise LakeError("the lake may not be written", code="no-permission")

    monkeypatch.setattr(type(store), "put_if_absent", refuse)
    shown = run(app, ["query", SQL, "--lake", store.location])
    assert shown.exit_code == 1 and isinstance(shown.exception, LakeError)
    assert shown.stdout == ""


def test_the_command_line_asks_for_the_purpose(tmp_path: Path) -> None:
    store = lake_under(tmp_path, policy("audit"))
    words = ["query", SQL, "--lake", store.location, "--json"]
    assert isinstance(run(app, words).exception, UsageError)
    assert run(app, [*words, "--purpose", "audit"]).exit_code == 0
    assert [read.purpose for read in read_reads(store)] == ["audit"]
