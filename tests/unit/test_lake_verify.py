"""A lake is proved: clean when it is as committed, and every kind of tampering is found."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from lake_samples import BUCKET, NOW_US, ingest, masked_slice, now, rows, sweep
from typer.testing import CliRunner

from pipeline.cli import log as log_command
from pipeline.cli import verify as verify_command
from pipeline.lake.checkpoints import truncate, write_checkpoint
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.documents import store_policy, store_ruleset
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.parquet import to_parquet
from pipeline.lake.proof.findings import Report
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.slices import Gap
from redactors import Ruleset, ruleset_digest, ruleset_document
from redactors.ruleset import Rule

app = typer.Typer()
verify_command.register(app)
log_command.register(app)

ENTRY = "_log/runs/0/00000000000{}.{}"
FILE = f"events/retention_class=default/expires={BUCKET}/runs-0-00000000000{{}}.parquet"
STRUCTURE = Checks(leaks=False, processes=1)
RULES = Checks(newer=False, processes=1)
HOURLY = b'{"default": "default", "classes": {"default": {"lifetime": "30d", "bucket": "hour"}}}'
AFTER_US = NOW_US + 40 * 86_400_000_000


def ruleset(*words: str) -> Ruleset:
    """Rules that find a word followed by eight digits."""
    rules = [
        Rule(
            id=f"{word}-number",
            kind="secret",
            label=word.upper(),
            pattern=f"{word}-[0-9]{{8}}",
            reason="test",
            owner="test",
            matches=(f"{word}-{{{{digits:8}}}}",),
        )
        for word in words
    ]
    return Ruleset(name="test", version="1", rules=tuple(rules))


@pytest.fixture(scope="module")
def digest() -> str:
    return ruleset_digest(ruleset("ticket"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, digest: str) -> Path:
    """Three commits in one partition, one in another; a gap, a refused event, dead letters."""
    path = tmp_path_factory.mktemp("original") / "lake"
    store = Store.open(path, create=True)
    store_ruleset(store, digest, ruleset_document(ruleset("ticket")))
    store_policy(store, digest, b"{}")
    for masked in (
        masked_slice(0, 8, dead=[3], ruleset=digest),
        masked_slice(8, 16, gaps=(Gap(9, 12, "not-delivered"),), ruleset=digest),
        masked_slice(16, 20, refused=[18], dead=[17], ruleset=digest),
        masked_slice(0, 5, partition=1, ruleset=digest),
    ):
        ingest(store, masked)
    return path


@pytest.fixture
def lake(original: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    shutil.copytree(original, tmp_path / "lake")
    return tmp_path / "lake"


def found(report: Report) -> list[tuple[str, int]]:
    """(code, first offset) of every violation."""
    return [(finding.code, finding.offset) for finding in report.violations]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_lake_as_committed_is_clean_and_every_offset_is_accounted_for(lake: Path) -> None:
    report = verify(str(lake), RULES)
    assert (report.findings, report.files, report.rows) == ((), 6, 21)
    first, second = report.partitions
    assert (first.start, first.end, first.commits, first.stored) == (0, 20, 3, 16)
    assert (first.refused, first.in_gaps, second.stored) == (1, 3, 5)


TAMPERINGS: dict[str, tuple[Callable[[Path], object], str, int]] = {
    "a file deleted": (lambda lake: (lake / FILE.format(2)).unlink(), "file-missing", 8),
    "a file cut short": (
        lambda lake: (lake / FILE.format(2)).write_bytes((lake / FILE.format(2)).read_bytes()[:99]),
        "file-changed",
        8,
    ),
    "a file with a row less": (
        lambda lake: (lake / FILE.format(2)).write_bytes(to_parquet(rows([8, 12, 13, 14]))),
        "rows-differ",
        8,
    ),
    "a file swapped for another": (
        lambda lake: shutil.copy(lake / FILE.format(1), lake / FILE.format(2)),
        "row-misplaced",
        0,
    ),
    "a file copied under a new name": (
        lambda lake: shutil.copy(lake / FILE.format(2), lake / (FILE.format(1) + ".parquet")),
        "file-outside",
        -1,
    ),
    "a commit deleted": (
        lambda lake: (lake / ENTRY.format(2, "commit")).unlink(),
        "entry-missing",
        8,
    ),
    "an intent deleted": (
        lambda lake: (lake / ENTRY.format(2, "intent")).unlink(),
        "entry-missing",
        8,
    ),
    "a commit edited": (
        lambda lake: edit(lake / ENTRY.format(2, "commit"), '"expired":0', '"expired":1'),
        "chain-broken",
        16,
    ),
    "an intent edited": (
        lambda lake: edit(lake / ENTRY.format(2, "intent"), '"end":16', '"end":17'),
        "intent-differs",
        8,
    ),
    "a commit cut short": (
        lambda lake: (lake / ENTRY.format(1, "commit")).write_text('{"topic":'),
        "entry-bad",
        -1,
    ),
    "a gap widened": (
        lambda lake: edit(lake / ENTRY.format(2, "commit"), '"end":12', '"end":13'),
        "offset-in-gap",
        12,
    ),
    "refused made more": (
        lambda lake: edit(lake / ENTRY.format(3, "commit"), '"refused":1', '"refused":2'),
        "offset-unaccounted",
        18,
    ),
    "an alien in the log": (
        lambda lake: (lake / "_log/runs/0/notes.txt").write_text("x"),
        "entry-unexpected",
        -1,
    ),
    "a ruleset text deleted": (
        lambda lake: shutil.rmtree(lake / "_log/rulesets"),
        "document-missing",
        -1,
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_found(lake: Path, name: str) -> None:
    tamper, code, offset = TAMPERINGS[name]
    tamper(lake)
    assert (code, offset) in found(verify(str(lake), STRUCTURE))


def test_a_row_that_is_stored_twice_is_found_at_its_offset(lake: Path, digest: str) -> None:
    store = Store.open(lake)
    twice = masked_slice(20, 24, columns={"kafka_offset": 20}, ruleset=digest)
    ingest(store, twice)
    assert ("offset-twice", 20) in found(verify(str(lake), STRUCTURE))


def test_a_dead_letter_with_a_reason_of_no_list_is_found(lake: Path, digest: str) -> None:
    masked = masked_slice(20, 24, dead=[21], ruleset=digest)
    (letters,) = (part for part in masked.parts if part.table == "dead_letters")
    at = letters.rows.schema.get_field_index("code")
    changed = letters.rows.set_column(at, letters.rows.schema.field(at), pa.array(["because"]))
    parts = tuple(replace(p, rows=changed) if p is letters else p for p in masked.parts)
    ingest(Store.open(lake), replace(masked, parts=parts))
    (found,) = verify(str(lake), STRUCTURE).violations
    assert (found.code, found.offset) == ("code-unknown", 21)


def test_a_deadline_outside_the_bucket_is_found(lake: Path, digest: str) -> None:
    masked = masked_slice(20, 24, columns={"deadline": AFTER_US}, ruleset=digest)
    ingest(Store.open(lake), masked)
    assert found(verify(str(lake), STRUCTURE)) == [("deadline-differs", 20)]


def test_a_deadline_is_held_against_the_width_of_its_class_by_the_policy_of_then(
    lake: Path, digest: str
) -> None:
    """Fourteen hours into its bucket a deadline is right for daily buckets, not for hourly ones."""
    (lake / f"_log/policies/{digest}").write_bytes(HOURLY)
    assert ("deadline-differs", 0) in found(verify(str(lake), STRUCTURE))
    (lake / f"_log/policies/{digest}").write_bytes(HOURLY.replace(b"hour", b"day"))
    assert verify(str(lake), STRUCTURE).findings == ()


def test_a_value_that_the_rows_own_rules_find_is_a_violation(lake: Path, digest: str) -> None:
    body, name = '{"note":"see ticket-12345678 and parcel-12345678"}', "ticket-12345678"
    ingest(Store.open(lake), masked_slice(20, 22, ruleset=digest, columns={"body": body}))
    ingest(Store.open(lake), masked_slice(22, 24, ruleset=digest, columns={"name": name}))
    report = verify(str(lake), RULES)
    assert [(f.code, f.offset, f.detail, f.count) for f in report.findings] == [
        ("rule-finds", 20, "ticket-number", 2),
        ("rule-finds", 22, "identifier", 2),
    ]
    assert "12345678" not in str(report)


def test_what_only_newer_rules_find_is_an_advisory(lake: Path, digest: str, tmp_path: Path) -> None:
    newer = tmp_path / "newer.yaml"
    newer.write_bytes(ruleset_document(ruleset("ticket", "parcel")))  # JSON is YAML too
    ingest(
        Store.open(lake),
        masked_slice(20, 22, ruleset=digest, columns={"body": '"parcel-12345678"'}),
    )
    report = verify(str(lake), Checks(processes=1, rules=newer))
    assert [(f.code, f.offset, f.detail) for f in report.findings] == [
        ("newer-rule-finds", 20, "parcel-number")
    ]
    assert report.violations == ()


def test_a_row_under_rules_that_are_not_kept_is_an_advisory(lake: Path) -> None:
    ingest(Store.open(lake), masked_slice(20, 22))
    report = verify(str(lake), RULES)
    assert [finding.code for finding in report.advisories] == ["rules-unusable"]


def test_many_files_are_checked_by_many_processes_with_the_same_verdict(
    lake: Path, digest: str
) -> None:
    store = Store.open(lake)
    for start in range(20, 30):
        ingest(store, masked_slice(start, start + 1, ruleset=digest))
    (lake / FILE.format(2)).unlink()
    alone, together = (verify(str(lake), Checks(False, processes=n)) for n in (1, 2))
    assert alone == together
    assert ("file-missing", 8) in found(together)


def test_a_slice_that_is_being_written_is_no_violation(lake: Path, digest: str) -> None:
    SliceCommitter(Store.open(lake), new_claim(), now).write(masked_slice(20, 24, ruleset=digest))
    report = verify(str(lake), STRUCTURE)
    assert (report.findings, len(report.pending)) == ((), 1)


def test_compacted_and_swept_rows_are_accounted_for(lake: Path) -> None:
    store = Store.open(lake)
    Rewriter(store, new_claim(), NOW_US).compact(Bucket("events", "default", BUCKET))
    report = verify(str(lake), RULES)
    assert (report.findings, report.files, report.rows) == ((), 3, 21)
    sweep(store, [Bucket("events", "default", BUCKET)], AFTER_US)
    report = verify(str(lake), RULES)
    assert (report.findings, report.rows) == ((), 2)
    assert [part.removed for part in report.partitions] == [14, 5]
    assert not list((lake / "events").rglob("*.parquet"))


def test_a_log_cut_below_a_checkpoint_still_accounts_for_every_offset(
    lake: Path, digest: str
) -> None:
    store = Store.open(lake)
    sweep(store, [Bucket("dead_letters", "default", BUCKET)], AFTER_US)
    assert write_checkpoint(store, "runs", 0) is not None
    assert truncate(store, "runs", 0) == 4
    ingest(store, masked_slice(20, 24, refused=[21], ruleset=digest))
    report = verify(str(lake), RULES)
    assert report.findings == ()
    first = report.partitions[0]
    assert (first.start, first.end, first.stored, first.refused) == (0, 24, 17, 2)
    assert (first.removed, first.in_gaps) == (2, 3)
    assert write_checkpoint(store, "runs", 0) is not None
    assert truncate(store, "runs", 0) == 2
    assert verify(str(lake), STRUCTURE).partitions == report.partitions
    (lake / FILE.format(1)).unlink()
    assert ("offset-unaccounted", 0) in found(verify(str(lake), STRUCTURE))


def test_the_command_tells_the_verdict_by_its_exit_code(lake: Path) -> None:
    run = CliRunner().invoke
    clean = run(app, ["verify", "--lake", str(lake), "--structure-only"])
    assert (clean.exit_code, "exactly once" in clean.stdout) == (0, True)
    (lake / FILE.format(2)).unlink()
    broken = run(app, ["verify", "--lake", str(lake), "--structure-only", "--json"])
    assert broken.exit_code == 1
    report = json.loads(broken.stdout)
    assert report["violations"][0]["code"] == "file-missing"
    assert report["violations"][0]["offset"] == 8


def test_an_open_intent_is_shown_and_can_be_superseded(lake: Path, digest: str) -> None:
    run = CliRunner().invoke
    SliceCommitter(Store.open(lake), new_claim(), now).write(masked_slice(20, 24, ruleset=digest))
    shown = run(app, ["log", "show", "--lake", str(lake)])
    assert "open intent" in shown.stdout
    words = ["log", "supersede", "--lake", str(lake), "--topic", "runs", "--partition", "0"]
    assert run(app, [*words, "--reason", "its key is gone"]).exit_code == 0
    listed = json.loads(run(app, ["log", "show", "--lake", str(lake), "--json"]).stdout)
    assert listed[0]["open_intent"] is None
    assert listed[0]["commits"][-1]["superseded"] == "its key is gone"
    report = verify(str(lake), STRUCTURE)
    assert found(report) == [("file-outside", -1)]
    Rewriter(Store.open(lake), new_claim(), NOW_US).remove_strays()
    assert verify(str(lake), STRUCTURE).findings == ()


def test_a_log_can_be_compacted_and_truncated_and_the_lake_stays_proved(lake: Path) -> None:
    run = CliRunner().invoke
    compacted = run(app, ["log", "compact", "--lake", str(lake), "--files", "2", "--json"])
    assert json.loads(compacted.stdout) == {"buckets": 2, "files": 6}
    truncated = run(app, ["log", "truncate", "--lake", str(lake), "--json"])
    assert json.loads(truncated.stdout) == {"deleted": 4}
    report = verify(str(lake), STRUCTURE)
    assert (report.findings, report.rows, report.files) == ((), 21, 2)
