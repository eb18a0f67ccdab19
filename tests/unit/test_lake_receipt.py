"""A signed receipt pins a lake: what continues it is clean, and whatever goes back is found."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from lake_samples import BUCKET, DIGEST, NOW_US, ingest, masked_slice, rows, sweep
from typer.testing import CliRunner

from pipeline.cli import verify as verify_command
from pipeline.cli.main import explain
from pipeline.errors import LogError, PipelineError, ReceiptChanged
from pipeline.lake.checkpoints import truncate, write_checkpoint
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.entries import FileEntry, encode
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.parquet import to_parquet
from pipeline.lake.proof.receipt import Receipt, make_receipt, read_signed, sign
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from redactors import KeyRing

app = typer.Typer()
verify_command.register(app)

ENTRY = "_log/runs/{}/00000000000{}.{}"
FOLDER = f"events/retention_class=default/expires={BUCKET}"
FILE = FOLDER + "/runs-{}-00000000000{}.parquet"
DEAD = Bucket("dead_letters", "default", BUCKET)
REWRITE = f"_log/_rewrites/dead_letters/default/{BUCKET}/000000000001.commit"
CHECKPOINT = "_log/runs/1/checkpoints/000000000001"
STRUCTURE = Checks(leaks=False, processes=1)
AFTER_US = NOW_US + 40 * 86_400_000_000
KEYS = KeyRing.generate()

Found = set[tuple[str, int]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits in partition 0; two in partition 1, cut at the first; one bucket swept."""
    path = tmp_path_factory.mktemp("original") / "lake"
    store = Store.open(path, create=True)
    store_ruleset(store, DIGEST, b'{"name":"test"}')
    store_policy(store, DIGEST, b"{}")
    for masked in (
        masked_slice(0, 8, dead=[3]),
        masked_slice(8, 16),
        masked_slice(16, 20),
        masked_slice(0, 5, partition=1),
    ):
        ingest(store, masked)
    sweep(store, [DEAD], AFTER_US)
    write_checkpoint(store, "runs", 1)
    ingest(store, masked_slice(5, 9, partition=1))
    return path


@pytest.fixture(scope="module")
def receipt(original: Path) -> Receipt:
    report = verify(str(original), STRUCTURE)
    assert report.findings == ()
    made = make_receipt(report, KEYS.current, NOW_US, with_rules=False)
    return read_signed(sign(made, KEYS), KEYS)


@pytest.fixture
def lake(original: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    shutil.copytree(original, tmp_path / "lake")
    return tmp_path / "lake"


def found(lake: Path, since: Receipt | None = None) -> Found:
    """(code, first offset) of every violation."""
    report = verify(str(lake), STRUCTURE, since=since)
    return {(finding.code, finding.offset) for finding in report.violations}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def commit(lake: Path, number: int, partition: int = 0) -> Path:
    return lake / ENTRY.format(partition, number, "commit")


def swap(one: Path, other: Path) -> None:
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def roll_back(lake: Path, after: int, partition: int = 0) -> None:
    """Removes every commit above `after` with its intent and events, as if never written."""
    for number in range(after + 1, 4):
        for kind in ("intent", "commit"):
            (lake / ENTRY.format(partition, number, kind)).unlink(missing_ok=True)
        (lake / FILE.format(partition, number)).unlink(missing_ok=True)


def roll_forward_otherwise(lake: Path) -> None:
    roll_back(lake, 2)
    for start in (16, 18, 20, 22):
        ingest(Store.open(lake), masked_slice(start, start + 2))


def replace_last_file(lake: Path) -> None:
    """Other rows at the same offsets, and a last commit that names their bytes."""
    path = lake / FILE.format(0, 3)
    before, after = path.read_bytes(), to_parquet(rows(range(16, 20), name="other"))
    path.write_bytes(after)
    last = commit(lake, 3)
    edit(last, hashlib.sha256(before).hexdigest(), hashlib.sha256(after).hexdigest())
    edit(last, f'"size_bytes":{len(before)}', f'"size_bytes":{len(after)}')


def forge_checkpoint(lake: Path, number: int, **fields: Any) -> None:
    """Cuts the log of partition 0 where it ends, by a checkpoint that says something else."""
    checkpoint = write_checkpoint(Store.open(lake), "runs", 0)
    assert checkpoint is not None
    forged = replace(checkpoint, number=number, **fields)
    folder = lake / "_log/runs/0"
    shutil.rmtree(folder)
    (folder / "checkpoints").mkdir(parents=True)
    (folder / f"checkpoints/{number:012}").write_bytes(encode(forged))


def cut_off_end(lake: Path) -> None:
    roll_back(lake, 2)
    forge_checkpoint(lake, 9)


def cut_off_start(lake: Path) -> None:
    first = FILE.format(0, 1)
    files = verify(str(lake), STRUCTURE).standing.files
    (lake / first).unlink()
    kept = tuple(
        FileEntry(path, "events", rows, (lake / path).stat().st_size, files[path])
        for path, rows in ((FILE.format(0, 2), 8), (FILE.format(0, 3), 4))
    )
    forge_checkpoint(lake, 9, start=8, files=kept, rows=12, removed=0)


def unlink_partition(lake: Path) -> None:
    shutil.rmtree(lake / "_log/runs/0")
    for number in (1, 2, 3):
        (lake / FILE.format(0, number)).unlink()
    shutil.rmtree(lake / REWRITE.rpartition("/")[0])


HIDDEN: dict[str, tuple[Callable[[Path], object], Found]] = {
    "the last commit edited": (
        lambda lake: edit(commit(lake, 3), '"redactions":{}', '"redactions":{"x":1}'),
        {("receipt-differs", 16)},
    ),
    "the last commit deleted": (
        lambda lake: commit(lake, 3).unlink(),
        {("receipt-behind", 16), ("receipt-missing", -1)},
    ),
    "the log rolled back by one": (
        lambda lake: roll_back(lake, 2),
        {("receipt-behind", 16), ("receipt-missing", -1)},
    ),
    "the log rolled back by two": (
        lambda lake: roll_back(lake, 1),
        {("receipt-behind", 8), ("receipt-missing", -1)},
    ),
    "the log rolled back and continued otherwise": (
        roll_forward_otherwise,
        {("receipt-differs", 16), ("receipt-differs", -1)},
    ),
    "a partition removed as if it never was": (
        unlink_partition,
        {("receipt-behind", 0), ("receipt-missing", -1)},
    ),
    "a checkpoint forged that leaves the end out": (
        cut_off_end,
        {("receipt-behind", 16), ("receipt-missing", -1)},
    ),
    "a checkpoint forged that leaves the start out": (
        cut_off_start,
        {("receipt-differs", 0), ("receipt-missing", -1)},
    ),
    "the last file replaced and its commit made to agree": (
        replace_last_file,
        {("receipt-differs", 16), ("receipt-differs", -1)},
    ),
    "a rewrite edited": (
        lambda lake: edit(lake / REWRITE, '"purpose":"sweep"', '"purpose":"erase"'),
        {("receipt-differs", -1)},
    ),
    "a ruleset text edited": (
        lambda lake: edit(lake / f"_log/rulesets/{DIGEST}", "test", "lax"),
        {("receipt-differs", -1)},
    ),
    "the checkpoint edited": (
        lambda lake: edit(lake / CHECKPOINT, '"topic_id":"topic-id"', '"topic_id":"other"'),
        {("receipt-differs", 0)},
    ),
    "the checkpoint deleted while its entries stand": (
        lambda lake: (lake / CHECKPOINT).unlink(),
        {("receipt-missing", 0)},
    ),
}
"""Tampering that leaves a lake in agreement with itself, and what the receipt shows."""


@pytest.mark.parametrize("name", HIDDEN)
def test_tampering_that_the_lake_itself_hides_is_found_by_the_receipt(
    lake: Path, receipt: Receipt, name: str
) -> None:
    tamper, expected = HIDDEN[name]
    tamper(lake)
    assert found(lake) == set()
    assert found(lake, receipt) == expected


TAMPERINGS: dict[str, tuple[Callable[[Path], object], tuple[str, int]]] = {
    "a file deleted": (lambda lake: (lake / FILE.format(0, 2)).unlink(), ("file-missing", 8)),
    "a file cut short": (
        lambda lake: (lake / FILE.format(0, 3)).write_bytes(b"PAR1"),
        ("file-unreadable", 16),
    ),
    "a file edited": (
        lambda lake: (lake / FILE.format(0, 2)).write_bytes(to_parquet(rows(range(8, 15)))),
        ("file-changed", 8),
    ),
    "two files swapped": (
        lambda lake: swap(lake / FILE.format(0, 1), lake / FILE.format(0, 3)),
        ("file-changed", 16),
    ),
    "a file duplicated": (
        lambda lake: shutil.copy(lake / FILE.format(0, 3), lake / FILE.format(2, 0)),
        ("file-outside", -1),
    ),
    "an early commit edited": (
        lambda lake: edit(commit(lake, 1), '"redactions":{}', '"redactions":{"x":1}'),
        ("chain-broken", 8),
    ),
    "an early commit deleted": (
        lambda lake: commit(lake, 2).unlink(),
        ("entry-missing", 8),
    ),
    "the last commit cut short": (
        lambda lake: commit(lake, 3).write_text('{"topic":'),
        ("receipt-differs", 16),
    ),
    "the last commit duplicated": (
        lambda lake: shutil.copy(commit(lake, 3), commit(lake, 4)),
        ("entry-missing", 20),
    ),
    "two commits swapped": (
        lambda lake: swap(commit(lake, 2), commit(lake, 3)),
        ("receipt-differs", 16),
    ),
    "the last commits of two partitions swapped": (
        lambda lake: swap(commit(lake, 3), commit(lake, 2, 1)),
        ("receipt-differs", 16),
    ),
    "a rewrite deleted": (lambda lake: (lake / REWRITE).unlink(), ("receipt-missing", -1)),
    "a rewrite cut short": (
        lambda lake: (lake / REWRITE).write_text("{"),
        ("receipt-differs", -1),
    ),
    "a ruleset text deleted": (
        lambda lake: (lake / f"_log/rulesets/{DIGEST}").unlink(),
        ("receipt-missing", -1),
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_found_against_the_last_receipt(
    lake: Path, receipt: Receipt, name: str
) -> None:
    tamper, expected = TAMPERINGS[name]
    tamper(lake)
    assert expected in found(lake, receipt)


def test_a_lake_that_lives_on_continues_its_receipt(lake: Path, receipt: Receipt) -> None:
    store = Store.open(lake)
    assert found(lake, receipt) == set()
    ingest(store, masked_slice(20, 24))
    assert found(lake, receipt) == set()
    Rewriter(store, new_claim(), NOW_US).compact(Bucket("events", "default", BUCKET))
    assert found(lake, receipt) == set()
    for partition in (0, 1):
        assert write_checkpoint(store, "runs", partition) is not None
        assert truncate(store, "runs", partition) > 0
    assert found(lake, receipt) == set()
    sweep(store, [Bucket("events", "default", BUCKET)], AFTER_US)
    assert found(lake, receipt) == set()


def test_the_entry_a_log_was_cut_at_is_still_held_against_the_receipt(
    lake: Path, receipt: Receipt
) -> None:
    store = Store.open(lake)
    write_checkpoint(store, "runs", 0)
    truncate(store, "runs", 0)
    assert found(lake, receipt) == set()
    commit(lake, 3).unlink()
    assert found(lake, receipt) == {("receipt-missing", 16)}


def test_a_receipt_says_where_the_lake_stood(original: Path, receipt: Receipt) -> None:
    first, second = receipt.standing.heads
    last = commit(original, 3).read_bytes()
    cut = (original / CHECKPOINT).read_bytes()
    assert (first.commit.number, first.commit.start, first.commit.end) == (3, 16, 20)
    assert (first.commit.digest, first.checkpoint) == (hashlib.sha256(last).hexdigest(), None)
    assert second.checkpoint is not None
    assert (second.checkpoint.number, second.checkpoint.end) == (1, 5)
    assert second.checkpoint.digest == hashlib.sha256(cut).hexdigest()
    assert receipt.standing.tables["events"].rows == 28
    assert receipt.standing.tables["dead_letters"].files == 0
    assert list(receipt.standing.rulesets) == [DIGEST]
    live = sorted((original / "events").rglob("*.parquet"))
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(original)}\n"
        for path in live
    ]
    assert receipt.files_digest == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert (receipt.clean, receipt.violations, receipt.made_at_us) == (True, {}, NOW_US)


def test_a_receipt_of_a_broken_lake_says_so(lake: Path) -> None:
    (lake / FILE.format(0, 2)).unlink()
    report = verify(str(lake), STRUCTURE)
    made = make_receipt(report, KEYS.current, NOW_US, with_rules=False)
    assert (made.clean, made.violations["file-missing"]) == (False, 1)


def test_no_byte_of_a_receipt_can_be_changed_or_left_out(receipt: Receipt) -> None:
    document = sign(receipt, KEYS)
    assert read_signed(document, KEYS) == receipt
    for at in range(len(document)):
        flipped = document[:at] + bytes([document[at] ^ 1]) + document[at + 1 :]
        for changed in (flipped, document[:at]):
            with pytest.raises(PipelineError):
                read_signed(changed, KEYS)
    pretty = json.dumps(json.loads(document), indent=1).encode()
    for changed in (pretty, document * 2, b"[]", b"null", b'{"key_id":[],"signature":""}'):
        with pytest.raises(ReceiptChanged):
            read_signed(changed, KEYS)


def test_a_receipt_signed_under_a_foreign_key_is_refused(receipt: Receipt) -> None:
    foreign = KeyRing(KEYS.current, {KEYS.current: bytes(32)})
    with pytest.raises(ReceiptChanged):
        read_signed(sign(receipt, foreign), KEYS)
    with pytest.raises(LogError, match="not in your key ring") as unknown:
        read_signed(sign(receipt, KEYS), KeyRing.generate())
    assert (unknown.value.exit_code, ReceiptChanged.exit_code) == (3, 1)


def test_a_rotated_ring_still_reads_its_old_receipts(receipt: Receipt) -> None:
    assert read_signed(sign(receipt, KEYS), KEYS.rotated()) == receipt


def test_the_command_writes_a_receipt_and_holds_the_lake_against_it(
    lake: Path, tmp_path: Path
) -> None:
    ring, first = tmp_path / "keys.json", tmp_path / "first.json"
    KEYS.save(ring)
    words = ["--lake", str(lake), "--structure-only", "--keys", str(ring)]
    run = CliRunner().invoke
    assert run(app, [*words, "--receipt", str(first)]).exit_code == 0
    assert read_signed(first.read_bytes(), KEYS).clean
    assert run(app, [*words, "--since", str(first)]).exit_code == 0
    again = run(app, [*words, "--receipt", str(first)]).exception
    assert isinstance(again, PipelineError)
    assert "name a new file" in explain(again)[0]

    roll_back(lake, 2)
    second = tmp_path / "second.json"
    behind = run(app, [*words, "--since", str(first), "--receipt", str(second), "--json"])
    assert behind.exit_code == 1
    violations = json.loads(behind.stdout)["violations"]
    assert [(v["code"], v["offset"]) for v in violations][-1] == ("receipt-behind", 16)
    assert not read_signed(second.read_bytes(), KEYS).clean
    assert "the first at offset 16" in run(app, [*words, "--since", str(first)]).stdout

    edit(first, '"clean":true', '"clean":false')
    changed = run(app, [*words, "--since", str(first)]).exception
    assert isinstance(changed, ReceiptChanged)
    assert explain(changed)[1] == 1
