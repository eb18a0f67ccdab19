"""Erasure: every row about somebody goes, under every key, and nothing else does."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake_samples import BUCKET, NOW_US, header, rows

from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_ruleset
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.parquet import from_parquet
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.retention.copies import Copier
from pipeline.retention.erase import Eraser, rows_naming
from pipeline.retention.holds import Rows, add_hold
from pipeline.retention.ledger import Ledger, Receipt
from pipeline.retention.sweep import Sweeper
from pipeline.retention.tombstones import read_tombstones, removals_of_run
from pipeline.slices import MaskedSlice, Part
from redactors import KeyRing, load_ruleset, ruleset_digest, ruleset_document
from redactors.masks import Masks

ALICE, BOB = "alice@example.com", "bob@example.com"
EVENTS = Bucket("events", "default", BUCKET)
STRUCTURE = Checks(leaks=False, newer=False, processes=1)


@pytest.fixture
def ring() -> KeyRing:
    return KeyRing.generate().rotated()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "lake", create=True)
    ruleset = load_ruleset()
    store_ruleset(store, ruleset_digest(ruleset), ruleset_document(ruleset))
    return store


def mask(ring: KeyRing, label: str, value: str, *, old: bool = False) -> str:
    key_id = next(each for each in ring.keys if (each == ring.current) != old)
    return Masks([label], ring.with_current(key_id)).hashed(label, value.encode())


def write(store: Store, *about: dict[str, Any], commit: bool = True) -> None:
    """One slice with a row for each of `about`, which says how the row differs from the others."""
    position = PartitionLog(store, "runs", 0).position().next_offset or 0
    tables = [rows([position + index], **columns) for index, columns in enumerate(about)]
    end = position + len(about)
    part = Part("events", "default", BUCKET, pa.concat_tables(tables))
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    counts = {"events": len(about)}
    written = writer.write(MaskedSlice(header(position, end, counts=counts), (part,)))
    assert written is not None
    if commit:
        writer.commit(written)


def erase(store: Store, ring: KeyRing, subject: str = ALICE) -> Receipt | None:
    return Eraser(store, new_claim(), "tester", lambda: NOW_US, ring).erase([subject], "asked for")


def offsets(store: Store) -> list[int]:
    return sorted(
        row["kafka_offset"]
        for file in read_lake(store).files["events"]
        for row in from_parquet(store.get(file.path)).to_pylist()
    )


def findings(store: Store) -> set[str]:
    return {found.code for found in verify(store.location, STRUCTURE).findings}


def every_kind_of_row(ring: KeyRing) -> list[dict[str, Any]]:
    """Offsets 0, 2, 3, 4 are about Alice: as subject, in prose, under an old key, escaped."""
    email = mask(ring, "EMAIL", ALICE)
    return [
        {"subjects": [mask(ring, "SUBJECT", BOB), mask(ring, "SUBJECT", ALICE)]},
        {"subjects": [mask(ring, "SUBJECT", BOB)], "body": f'"{mask(ring, "EMAIL", BOB)}"'},
        {"body": f'{{"text":"ask {email} about it"}}'},
        {"subjects": [mask(ring, "SUBJECT", ALICE, old=True)]},
        {"body": f'{{"url":"/?q={email.replace("[", "%5B").replace(":", "%3A")}"}}'},
        {},
    ]


def test_rows_go_by_subject_and_by_pseudonym_under_every_key(store: Store, ring: KeyRing) -> None:
    write(store, *every_kind_of_row(ring))
    write(store, {}, {"subjects": [mask(ring, "SUBJECT", ALICE)]})
    receipt = erase(store, ring)
    assert receipt is not None and receipt.is_complete
    assert [(each.files, each.rows, each.held_rows) for each in receipt.buckets] == [(2, 5, 0)]
    assert offsets(store) == [1, 5, 6]
    assert findings(store) <= {"document-missing"}
    assert erase(store, ring) is None
    assert [(each.why, each.rows) for each in read_tombstones(store)] == [("erase", 5)]
    assert [each.why for each in removals_of_run(store, "run-0", ring)] == ["erase"]


def test_no_byte_of_an_erased_row_is_left_in_the_tables(store: Store, ring: KeyRing) -> None:
    canary = "-".join(["canary", "91", "a"])
    write(store, {"event_id": canary, "subjects": [mask(ring, "SUBJECT", ALICE)]}, {})
    erase(store, ring)
    files = [path for path in Path(store.location).rglob("*") if path.is_file()]
    assert files and not any(canary.encode() in path.read_bytes() for path in files)


def test_the_ledger_names_the_subject_by_pseudonym_only(store: Store, ring: KeyRing) -> None:
    write(store, *every_kind_of_row(ring))
    erase(store, ring)
    ((intent, _),) = Ledger(store, "").entries()
    assert (intent.purpose, intent.reason) == ("erase", "asked for")
    assert mask(ring, "SUBJECT", ALICE) in intent.about
    assert not any(b"alice" in store.get(item.key) for item in store.walk("_audit"))


def test_rows_of_merged_files_are_erased_and_accounted_for(store: Store, ring: KeyRing) -> None:
    write(store, *every_kind_of_row(ring))
    write(store, {}, {"subjects": [mask(ring, "SUBJECT", ALICE)]}, {})
    rewriter = Rewriter(store, new_claim(), NOW_US)
    rewriter.compact(EVENTS)
    erase(store, ring)
    write(store, {})
    assert offsets(store) == [1, 5, 6, 8, 9]
    assert findings(store) <= {"document-missing"}
    rewriter.compact(EVENTS)
    erase(store, ring, BOB)
    assert offsets(store) == [5, 6, 8, 9]
    assert findings(store) <= {"document-missing"}


def test_a_held_row_is_not_erased_and_stands_in_the_receipt(store: Store, ring: KeyRing) -> None:
    write(store, *every_kind_of_row(ring))
    add_hold(
        store,
        Rows(runs=("run-0",)),
        now_us=NOW_US,
        by="tester",
        reason="case 7",
        owner="legal",
        review_on="2026-12-01",
    )
    receipt = erase(store, ring)
    assert receipt is not None
    assert [(each.rows, each.held_rows) for each in receipt.buckets] == [(2, 2)]
    assert offsets(store) == [0, 1, 3, 5]


def test_what_is_being_written_and_copies_stand_in_the_receipt_as_not_erased(
    store: Store, ring: KeyRing
) -> None:
    write(store, *every_kind_of_row(ring))
    write(store, {"subjects": [mask(ring, "SUBJECT", ALICE)]}, commit=False)
    Copier(store, "tester", "here", lambda: NOW_US).register("html", "/srv/out.html", NOW_US)
    receipt = erase(store, ring)
    assert receipt is not None and not receipt.is_complete
    assert [each.code for each in receipt.failures] == ["not-erased", "copy-unchecked"]


def test_a_sweep_takes_an_erasure_over_that_was_left_and_removes_only_what_has_ended(
    store: Store, ring: KeyRing
) -> None:
    write(store, *every_kind_of_row(ring))
    Ledger(store, new_claim()).begin("erase", NOW_US, "tester", [])
    receipt = Sweeper(store, new_claim(), "tester", lambda: NOW_US).sweep()
    assert receipt is not None and receipt.buckets == ()
    assert len(offsets(store)) == 6


def test_a_pseudonym_is_found_in_any_type_of_column() -> None:
    token = "[EMAIL:k1:ABCDEFGHIJKLMNOP]"
    table = pa.table(
        {
            "plain": [token, None, "x", "x", "x"],
            "list": [["x"], [f"a {token}"], None, [], ["x"]],
            "struct": [{"a": {"b": "x"}}, None, {"a": {"b": token}}, {"a": None}, None],
            "structs": [[{"c": ["x"]}], None, [], [{"c": ["x"]}, {"c": [token]}], None],
            "number": [1, 2, 3, 4, 5],
        }
    )
    assert rows_naming(table, [token]).tolist() == [True, True, True, True, False]
    assert rows_naming(table.slice(1), [token]).tolist() == [True, True, True, False]
