"""Stored rows are masked again under stricter rules: once, everywhere, and nothing is unmasked."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from demo_lake import ingest_events
from lake_samples import event, header
from redaction_samples import KEYS, field, password
from rescrub_samples import (
    CODE,
    LATER_US,
    NAME,
    NEW,
    NOW_US,
    OLD,
    OURS,
    held_texts,
    is_whole,
    lake,
    rescrub,
    rescrubber,
    rows,
    run_events,
)
from typer.testing import CliRunner

from pipeline import faultpoints
from pipeline.cli.main import app
from pipeline.errors import LakeError
from pipeline.lake.checkpoints import cut_all
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.layout import new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.log import PartitionLog
from pipeline.lake.proof.compare import differs
from pipeline.lake.sealing import SEALED
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.records.capture import text_digest
from pipeline.retention.holds import Rows, add_hold
from pipeline.retention.ledger import Ledger
from pipeline.retention.policy import bucket_name
from pipeline.retention.sweep import Sweeper
from pipeline.review.rescrub.run import Rescrubber
from pipeline.slices import MaskedSlice, Message, Part
from redactors import KeyRing, ruleset_digest
from schemas import encode
from schemas.parquet import EVENTS, evidences


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, stored under the old rules in slices of three."""
    folder = tmp_path_factory.mktemp("written")
    KEYS.save(folder / "keys.json")
    lake(folder / "lake", OLD)
    return folder


@pytest.fixture
def store(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same in a folder of the test's own."""
    monkeypatch.setenv("REDACTORY_BUCKET_KEYS", str(tmp_path / "bucket-keys"))
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return Store.open(tmp_path / "lake")


def test_what_the_new_rules_find_is_gone_and_what_was_masked_stays(store: Store) -> None:
    before = {row["event_id"]: row for row in rows(store)}
    assert OURS in held_texts(store) and CODE in held_texts(store) and is_whole(store)
    outcome = rescrub(store)
    assert outcome.receipt is not None and outcome.receipt.is_complete
    assert not [value for value in (OURS, CODE) if value in held_texts(store)]
    after = {row["event_id"]: row for row in rows(store)}
    assert after.keys() == before.keys() and is_whole(store)
    for name, row in after.items():
        was = before[name]
        same = [key for key in row if key not in ("body", "redactions", "ruleset")]
        assert {key: row[key] for key in same} == {key: was[key] for key in same}
        assert row["ruleset"] == ruleset_digest(NEW)
        for made in was["redactions"]:
            again = [r for r in row["redactions"] if r["path"] == made["path"]]
            again = [r for r in again if r["rule"] == made["rule"]]
            assert made["span_start"] is None or mask(was, made) in {mask(row, r) for r in again}


def mask(row: Mapping[str, Any], redaction: Mapping[str, Any]) -> str:
    """The text that stands at the place of a redaction."""
    value = json.loads(row["body"])
    for step in redaction["path"].split("/")[1:]:
        value = value[step]
    return str(value[redaction["span_start"] : redaction["span_end"]])


def test_the_stored_rows_are_what_came_but_for_what_they_declare(store: Store) -> None:
    rescrub(store)
    originals = {event.event_id: event for event in run_events()}
    found = {row["event_id"]: differs(row, originals[row["event_id"]]) for row in rows(store)}
    assert found == dict.fromkeys(originals)


def test_what_a_field_shows_late_is_masked_before_it(store: Store) -> None:
    rescrub(store)
    said = {row["event_id"]: row for row in rows(store)}
    assert "code [BADGE], write" in said["closed-1"]["body"]
    assert "memory:badge" in {r["rule"] for r in said["closed-1"]["redactions"]}
    assert NAME not in held_texts(store)  # sealed in the state of its run


def test_what_an_open_run_remembers_is_masked_under_the_same_rules_too(store: Store) -> None:
    assert NAME in held_texts(store)
    outcome = rescrub(store, OLD)
    assert NAME not in held_texts(store) and is_whole(store)
    assert outcome.counts["events"].redactions == {"memory:field-name": 2}
    assert rescrub(store, OLD).receipt is None


def test_what_a_run_that_has_ended_showed_is_learnt_from_the_topic(tmp_path: Path) -> None:
    first, *_, last = [event for event in run_events() if event.run_id == "closed"]
    said, showed = {"content": f"it is {password()}, really"}, {"password": password()}
    events = [
        first,
        replace(first, event_id="said", sequence=1, kind="message", body=json.dumps(said)),
        replace(first, event_id="showed", sequence=2, kind="message", body=json.dumps(showed)),
        replace(last, sequence=3),
    ]
    KEYS.save(tmp_path / "keys.json")
    store = ingest_events(tmp_path / "lake", events, NOW_US, 2, keys=KEYS, ruleset=OLD).store
    asked: list[tuple[str, int, list[int]]] = []

    def read_again(topic: str, partition: int, offsets: Sequence[int]) -> Iterator[Message]:
        asked.append((topic, partition, list(offsets)))
        yield from (Message(at, NOW_US, b"closed", encode(events[at])) for at in offsets)

    assert rescrub(store, OLD).receipt is None and password() in held_texts(store)
    rescrub(store, OLD, read_again=read_again)
    assert asked == [("demo", 0, [2])]
    assert password() not in held_texts(store) and is_whole(store)


def test_the_state_of_open_runs_is_left_to_whoever_ingests_unless_it_is_asked_for(
    store: Store,
) -> None:
    commits = len(read_lake(store).histories[0].commits)
    outcome = rescrub(store, with_open_runs=False)
    assert outcome.open_runs == ("_state/demo/0",) and OURS in held_texts(store)
    assert len(read_lake(store).histories[0].commits) == commits
    again = rescrub(store, with_open_runs=False)
    assert again.receipt is None and again.open_runs == outcome.open_runs
    assert rescrub(store).open_runs == () and CODE not in held_texts(store) and is_whole(store)


def test_records_are_those_of_a_lake_that_was_written_under_the_new_rules(
    store: Store, tmp_path: Path
) -> None:
    rescrub(store)
    (record,), (meant,) = rows(store, "runs"), rows(lake(tmp_path / "other", NEW), "runs")
    digests = {row["kafka_offset"]: text_digest(row["body"]) for row in rows(store)}
    for evidence in evidences(record):
        assert evidence["digest"] == digests[evidence["kafka_offset"]]
    # What memory learned late is masked here, and was not there.
    counts = {each["rule"]: each["count"] for each in record["redactions"]}
    assert counts == {each["rule"]: each["count"] for each in meant["redactions"]} | {
        "memory:badge": counts["memory:badge"]
    }
    assert counts["memory:badge"] == 2
    for name in ("code", "policy", "environment", "task", "models", "outputs", "completeness"):
        assert without_digests(record[name]) == without_digests(meant[name])


def without_digests(value: Any) -> Any:
    for evidence in evidences(value):
        evidence["digest"] = ""
    return value


def test_doing_it_again_changes_nothing(store: Store) -> None:
    rescrub(store)
    entries = len(read_lake(store).rewrites)
    again = rescrub(store)
    assert again.receipt is None and again.files == 0
    assert len(read_lake(store).rewrites) == entries


def test_the_log_says_what_was_rewritten_under_which_rules(store: Store) -> None:
    before = {file.path for file in read_lake(store).files["events"]}
    outcome = rescrub(store)
    done = [each for each in read_lake(store).rewrites if each.table == "events"]
    assert {file.path for each in done for file in each.removed} == before
    assert {each.purpose for each in done} == {"rescrub"}
    assert {each.rulesets_before for each in done} == {(ruleset_digest(OLD),)}
    assert {each.ruleset for each in done} == {outcome.ruleset} == {ruleset_digest(NEW)}
    assert not [path for path in before if store.exists(path)]
    ((entry, receipt),) = Ledger(store, "").entries()
    assert (entry.purpose, entry.by, entry.reason) == ("rescrub", "tester", "new rules")
    assert receipt is not None and sum(bucket.rows for bucket in receipt.buckets) == 0


def test_what_was_rescrubbed_is_merged_cut_and_swept_as_any_other(store: Store) -> None:
    rescrub(store)
    for file in read_lake(store).files["events"]:
        bucket = parse_bucket(file.path)
        assert bucket is not None
        Rewriter(store, new_claim(), LATER_US).compact(bucket)
    cut_all(store)
    assert is_whole(store)
    Sweeper(store, new_claim(), "tester", lambda: bucket.starts_us).sweep()
    assert rows(store) == [] and list(store.walk("events")) == [] and is_whole(store)


def test_a_trial_changes_nothing_and_counts_the_same(store: Store) -> None:
    before = sorted((item.key, item.size_bytes) for item in store.walk(""))
    trial = rescrubber(store).preview()
    assert sorted((item.key, item.size_bytes) for item in store.walk("")) == before
    done = rescrub(store)
    assert trial.counts["events"] == done.counts["events"]
    assert trial.counts["runs"].changed == 1


def test_masks_of_labels_that_the_new_rules_have_not_stay(store: Store) -> None:
    other = NEW.model_copy(
        update={"fields": (*NEW.fields[1:], field("field-password", "*password", label="HIDDEN"))}
    )
    rescrub(store, other)
    (row,) = [row for row in rows(store) if row["event_id"] == "closed-4"]
    assert json.loads(row["body"])["password"] == "[PASSWORD]" and is_whole(store)


def test_only_the_runs_that_meet_the_condition_are_masked_again(store: Store) -> None:
    rescrub(store, where="kind = 'run.finished'")
    digests = {row["run_id"]: row["ruleset"] for row in rows(store)}
    ((entry, _),) = Ledger(store, "").entries()
    assert entry.about == (f"ruleset {ruleset_digest(NEW)}", "1 runs")
    assert digests == {"closed": ruleset_digest(NEW), "open": ruleset_digest(OLD)}
    assert is_whole(store)


def test_a_held_row_is_left_as_it_is(store: Store) -> None:
    about = {"by": "tester", "reason": "case 7", "owner": "legal", "review_on": "2026-12-01"}
    add_hold(store, Rows(runs=("closed",)), now_us=NOW_US, **about)
    before = [row for row in rows(store) if row["run_id"] == "closed"]
    outcome = rescrub(store)
    assert [row for row in rows(store) if row["run_id"] == "closed"] == before
    assert outcome.counts["events"].held == len(before)


def test_without_the_key_of_the_hashed_masks_nothing_is_done(store: Store) -> None:
    ring = KeyRing("k2", {"k2": bytes(range(1, 33))})
    with pytest.raises(LakeError, match="k1"):
        Rescrubber(store, new_claim(), "tester", lambda: LATER_US, NEW, ring).rescrub()


def test_a_row_that_cannot_be_examined_stays_and_is_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redactors.engine.MAX_LENGTH", 60)
    outcome = rescrub(store)
    assert outcome.counts["events"].unexaminable > 0
    left = {row["ruleset"] for row in rows(store) if len(row["body"]) > 60}
    assert ruleset_digest(OLD) in left


STOPS = (
    ("removal-intent.after", 1), ("rewrite-intent.after", 1), ("tmp-write.after", 1),
    ("publish.after", 1), ("rewrite-commit.before", 1), ("rewrite-commit.after", 1),
    ("remove.after", 1), ("rewrite-intent.after", 2), ("publish.after", 2),
    ("rewrite-commit.after", 2), ("state.after", 1), ("receipt.before", 1),
)  # fmt: skip
"""Fault points, and the how manieth time they are reached; events come first, then records."""


class Killed(BaseException):
    """Stands for `kill -9`: nothing after it runs."""


@pytest.mark.parametrize(("point", "nth"), STOPS)
def test_a_rescrub_that_was_killed_is_finished_by_the_next(
    store: Store, point: str, nth: int
) -> None:
    left = nth

    def kill(name: str) -> None:
        nonlocal left
        left -= name == point
        if name == point and left == 0:
            raise Killed

    faultpoints.install(kill)
    with suppress(Killed):
        rescrub(store)
    faultpoints.install(None)
    for bucket in {parse_bucket(file.path) for file in read_lake(store).files["events"]}:
        assert bucket is not None
        Rewriter(store, new_claim(), LATER_US).compact(bucket)
    assert len(rows(store)) == len(run_events())
    again = rescrub(store)
    if point == "state.after":  # a slice is begun, and an ingest or a person has to end it
        assert again.receipt is not None
        assert [failure.code for failure in again.receipt.failures] == ["intent-open"]
        PartitionLog(store, "demo", 0).supersede("killed", new_claim())
        rescrub(store)
    assert is_whole(store) and len(rows(store)) == len(run_events())
    assert not [value for value in (OURS, CODE, NAME) if value in held_texts(store)]
    strays = read_lake(store).strays()
    assert strays.outside == strays.pending == ()
    assert not list(store.walk("_tmp/rescrub"))


def test_sealed_rows_are_sealed_again_and_old_keys_are_gone(store: Store, tmp_path: Path) -> None:
    sealed_store = Store.open(tmp_path / "sealed", create=True)
    write_sealed(sealed_store)
    (before,) = read_lake(sealed_store).files["events"]
    rescrub(sealed_store)
    (after,) = read_lake(sealed_store).files["events"]
    assert after.sealed and after.sealed != before.sealed
    (row,) = rows(sealed_store)
    assert row["body"] == '{"text":"[SECRET]"}'
    with pytest.raises(LakeError):
        sealed_store.bucket_keys.get(*before.sealed.rsplit("/", 1))


def test_sealed_rows_whose_keys_are_gone_are_named_and_stay(store: Store, tmp_path: Path) -> None:
    sealed_store = Store.open(tmp_path / "sealed", create=True)
    write_sealed(sealed_store)
    (before,) = read_lake(sealed_store).files["events"]
    folder, _, name = before.sealed.rpartition("/")
    sealed_store.bucket_keys.destroy(folder, [name])
    receipt = rescrub(sealed_store).receipt
    assert receipt is not None
    assert [failure.code for failure in receipt.failures] == ["key-gone"]
    assert read_lake(sealed_store).files["events"] == (before,)


def write_sealed(store: Store) -> None:
    deadline_us = LATER_US + 40 * 24 * 3_600_000_000
    place = bucket_name(deadline_us)
    about = {"deadline": deadline_us, "ingested_at": NOW_US, "ruleset": ruleset_digest(OLD)}
    row = event(0, **about, body=json.dumps({"text": OURS}, separators=(",", ":")))
    table = pa.Table.from_pylist([row], schema=EVENTS.with_metadata({SEALED: b""}))
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    part = Part("events", "default", place, table)
    written = writer.write(MaskedSlice(header(0, 1, counts={"events": 1}), (part,)))
    assert written is not None
    writer.commit(written)


RULES = """
name: ours
version: "1"
rules:
  - {id: ours, kind: secret, label: SECRET, pattern: 'ours_[a-z]{8}', reason: r, owner: o,
     matches: ['ours_{{lower:8}}'], rejects: ['ours_short']}
"""


def test_the_command_says_what_would_change_then_does_it(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    keys = tmp_path / "keys.json"
    arguments = ["rescrub", "--lake", store.location, "--rules", str(path), "--keys", str(keys)]
    trial = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert trial.exit_code == 0 and "rows would be examined" in trial.stdout
    assert OURS in held_texts(store)
    more = ["--json", "--reason", "r", "--with-open-runs"]
    done = CliRunner().invoke(app, [*arguments, *more])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tables"]["events"]["redactions"]["ours"] == 7
    assert OURS not in held_texts(store) and OURS not in done.stdout and is_whole(store)


def test_events_that_were_emitted_twice_count_once_in_their_record(tmp_path: Path) -> None:
    events = run_events()[:6]
    events = [*events, replace(events[3]), run_events()[6]]
    KEYS.save(tmp_path / "keys.json")
    store = ingest_events(tmp_path / "lake", events, NOW_US, 3, keys=KEYS, ruleset=OLD).store
    rescrub(store)
    (record,) = rows(store, "runs")
    counts = {each["rule"]: each["count"] for each in record["redactions"]}
    assert record["doubled"] == 1 and counts["ours"] == 6
