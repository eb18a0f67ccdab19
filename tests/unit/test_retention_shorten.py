"""A shorter policy reaches stored rows on request: they go sooner, never later, each once."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from golden_runs import COMPLETE
from lake_samples import HOUR_US, NOW_US, dead_rows, event, header
from run_samples import Ingest
from typer.testing import CliRunner

from pipeline import faultpoints
from pipeline.cli.main import app
from pipeline.errors import LostPartition
from pipeline.lake.checkpoints import cut_all
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.layout import Bucket, new_claim, parse_bucket
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.removal import Remover
from pipeline.lake.sealing import SEALED
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.retention.copies import Copier, read_copies
from pipeline.retention.holds import Rows, add_hold
from pipeline.retention.ledger import Ledger, Receipt
from pipeline.retention.policy import DAY_US, Policy
from pipeline.retention.shorten import Shortener
from pipeline.retention.sweep import Sweeper
from pipeline.retention.tombstones import read_tombstones
from pipeline.slices import MaskedSlice, Part
from schemas.parquet import EVENTS

STRUCTURE = Checks(leaks=False, newer=False, processes=1)
OLD_US = 20 * DAY_US
LATER_US = NOW_US + 2 * DAY_US
"""When the policy has changed: rows of 1 to 20 days are stored by then."""


class Killed(BaseException):
    """Stands for `kill -9`: nothing after it runs."""


def policy(default: str, bucket: str = "day", **others: str) -> Policy:
    lifetimes = {"default": default, "other": "90d", **others}
    classes = {name: {"lifetime": span, "bucket": bucket} for name, span in lifetimes.items()}
    return Policy.model_validate({"default": "default", "classes": classes})


BEFORE = policy("30d")


def write(
    store: Store,
    ages: Mapping[int, int],
    *,
    name: str = "default",
    sealed: bool = False,
    **more: Any,
) -> None:
    """One slice with an event at each offset, which happened so many µs ago."""
    places: dict[str, list[dict[str, Any]]] = {}
    for offset, age_us in ages.items():
        placed = BEFORE.place(NOW_US - age_us, None, name, NOW_US)
        about = {"occurred_at": NOW_US - age_us, "deadline": placed.deadline_us, **more}
        places.setdefault(placed.expires, []).append(event(offset, **about))
    schema = EVENTS.with_metadata({SEALED: b""}) if sealed else EVENTS
    parts = [
        Part("events", name, expires, pa.Table.from_pylist(rows, schema=schema))
        for expires, rows in sorted(places.items())
    ]
    start, end = min(ages), max(ages) + 1
    counts = {"events": len(ages)}
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    written = writer.write(MaskedSlice(header(start, end, counts=counts), tuple(parts)))
    assert written is not None
    writer.commit(written)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Events 0 to 19 of the default class, 0 to 19 days old, in two slices; five of another."""
    monkeypatch.setenv("REDACTORY_BUCKET_KEYS", str(tmp_path / "keys"))
    store = Store.open(tmp_path / "lake", create=True)
    write(store, {offset: offset * DAY_US for offset in range(12)})
    write(store, {offset: offset * DAY_US for offset in range(12, 20)})
    write(store, {offset: offset * HOUR_US for offset in range(20, 25)}, name="other")
    return store


def shorten(store: Store, wanted: Policy, now_us: int = LATER_US) -> Receipt | None:
    return Shortener(store, new_claim(), "tester", lambda: now_us, wanted).shorten("new policy")


def sweep(store: Store, now_us: int) -> Receipt | None:
    return Sweeper(store, new_claim(), "tester", lambda: now_us).sweep(with_strays=True)


def live(store: Store) -> dict[int, tuple[str, int]]:
    """Bucket and deadline of every live event, by offset; each is there once."""
    found: dict[int, tuple[str, int]] = {}
    for file in read_lake(store).files["events"]:
        bucket = parse_bucket(file.path)
        rows = from_parquet(store.get(file.path), keys=store.bucket_keys)
        times = rows["deadline"].cast(pa.int64()).to_pylist()
        for offset, deadline_us in zip(rows["kafka_offset"].to_pylist(), times, strict=True):
            assert bucket is not None and offset not in found
            found[offset] = bucket.expires, deadline_us
    return found


def is_whole(store: Store) -> bool:
    codes = {found.code for found in verify(store.location, STRUCTURE).findings}
    assert codes <= {"document-missing"}, codes
    assert Ledger(store, "").check() == ()
    return True


def moved(receipt: Receipt | None) -> int:
    assert receipt is not None and receipt.is_complete
    return sum(each.moved_rows for each in receipt.buckets)


def test_rows_go_when_the_new_policy_wants_and_none_is_lost(store: Store) -> None:
    before = live(store)
    receipt = shorten(store, policy("25d"))
    assert moved(receipt) == 20 and receipt is not None and receipt.purpose == "shorten"
    after = live(store)
    for offset in range(20):
        expires, deadline_us = after[offset]
        assert deadline_us == before[offset][1] - 5 * DAY_US
        assert Bucket("events", "default", expires).starts_us == deadline_us - deadline_us % DAY_US
    assert {o: after[o] for o in range(20, 25)} == {o: before[o] for o in range(20, 25)}
    assert is_whole(store) and list(read_tombstones(store)) == []
    assert shorten(store, policy("25d")) is None


def test_a_longer_lifetime_lengthens_nothing(store: Store) -> None:
    before = live(store)
    assert shorten(store, policy("400d", "hour", other="900d")) is None
    assert live(store) == before


def test_what_is_overdue_by_the_new_policy_goes_within_two_hours(store: Store) -> None:
    assert moved(shorten(store, policy("10d"))) == 20
    due = {offset for offset, (_, at_us) in live(store).items() if at_us <= LATER_US + 2 * HOUR_US}
    assert due == set(range(8, 20))
    sweep(store, LATER_US + 2 * HOUR_US)
    assert set(live(store)) == set(range(25)) - due and is_whole(store)
    assert sum(tombstone.rows for tombstone in read_tombstones(store)) == len(due)


def test_a_held_row_stays_where_it_went_and_follows_when_it_is_released(store: Store) -> None:
    about = {"by": "tester", "reason": "case 7", "owner": "legal", "review_on": "2026-12-01"}
    add_hold(store, Rows(runs=("run-1",)), now_us=NOW_US, **about)
    shorten(store, policy("10d"))
    sweep(store, LATER_US + 2 * HOUR_US)
    assert set(live(store)) == {*range(8), *range(20, 25), 10, 13, 16, 19}
    assert is_whole(store)


@pytest.mark.parametrize(
    ("columns", "start_us"),
    [
        ({"retention_from": "captured_at", "captured_at": NOW_US - HOUR_US}, NOW_US - HOUR_US),
        ({"captured_at": NOW_US - HOUR_US}, NOW_US - HOUR_US),
        ({"retention_from": "ingested_at"}, NOW_US),
        ({"retention_from": "occurred_at"}, NOW_US - 3 * DAY_US),
    ],
)
def test_the_new_deadline_counts_from_what_the_old_one_counted_from(
    tmp_path: Path, columns: dict[str, Any], start_us: int
) -> None:
    store = Store.open(tmp_path / "lake", create=True)
    write(store, {0: 3 * DAY_US}, **columns, deadline=NOW_US + 27 * DAY_US)
    shorten(store, policy("15d", "hour"))
    assert live(store)[0][1] == start_us + 15 * DAY_US


def test_dead_letters_count_from_their_ingest(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "lake", create=True)
    placed = BEFORE.place(NOW_US, None, None, NOW_US)
    part = Part(
        "dead_letters", "default", placed.expires, dead_rows([0], deadline=NOW_US + 30 * DAY_US)
    )
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    written = writer.write(MaskedSlice(header(0, 1, counts={"dead_letters": 1}), (part,)))
    assert written is not None
    writer.commit(written)
    assert moved(shorten(store, policy("7d"))) == 1
    (file,) = read_lake(store).files["dead_letters"]
    rows = from_parquet(store.get(file.path))
    assert rows["deadline"].cast(pa.int64()).to_pylist() == [NOW_US + 7 * DAY_US]
    assert is_whole(store)


def test_a_record_goes_with_the_first_event_whose_content_it_holds(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "lake", create=True)
    Ingest(store).take_all(COMPLETE["events"])
    wanted = Policy.model_validate(
        {
            "default": "default",
            "classes": {
                "debug": {"lifetime": "3d", "bucket": "hour"},
                "default": {"lifetime": "10d", "bucket": "hour"},
            },
        }
    )
    assert moved(shorten(store, wanted, NOW_US)) > 1
    (record,) = read_lake(store).files["runs"]
    bucket = parse_bucket(record.path)
    events = read_lake(store).files["events"]
    first = min(b.expires for file in events if (b := parse_bucket(file.path)))
    assert bucket is not None and bucket.expires == first and is_whole(store)


def test_sealed_rows_stay_sealed_and_their_old_keys_go(store: Store, tmp_path: Path) -> None:
    write(store, {25: 0, 26: 10 * DAY_US}, sealed=True, body=json.dumps({"text": "canary-4711"}))
    before = {path.name for path in (tmp_path / "keys").rglob("*") if path.is_file()}
    shorten(store, policy("25d"))
    after = {path.name for path in (tmp_path / "keys").rglob("*") if path.is_file()}
    assert len(before) == len(after) == 2 and not before & after
    assert {25, 26} <= set(live(store)) and is_whole(store)
    stored = [path for path in Path(store.location).rglob("*") if path.is_file()]
    assert not any(b"canary-4711" in path.read_bytes() for path in stored)


def test_moved_rows_are_merged_swept_and_shortened_again(store: Store) -> None:
    shorten(store, policy("25d", "hour"))
    shorten(store, policy("24d"))
    for bucket in {parse_bucket(file.path) for file in read_lake(store).files["events"]}:
        assert bucket is not None
        Rewriter(store, new_claim(), LATER_US).compact(bucket)
    assert is_whole(store) and len(live(store)) == 25
    sweep(store, NOW_US + 15 * DAY_US)
    assert set(live(store)) == {*range(9), *range(20, 25)} and is_whole(store)
    cut_all(store)
    assert is_whole(store)


def test_copies_that_may_hold_such_rows_go_sooner_too(store: Store, tmp_path: Path) -> None:
    copier = Copier(store, "tester", "here", lambda: NOW_US)
    files = read_lake(store).files["events"]
    of = {
        name: [file for file in files if f"retention_class={name}/" in file.path]
        for name in ("default", "other")
    }
    for name, found in of.items():
        copier.export(tmp_path / f"{name}.csv", "query", found, lambda file: file.write(b"x"))
    copier.register("external", "s3://elsewhere", NOW_US + 80 * DAY_US)
    before = {copy.location: copy.deadline_us for copy in read_copies(store)}
    shorten(store, policy("25d"))
    after = {copy.location: copy.deadline_us for copy in read_copies(store)}
    sooner = {Path(where).name for where in after if after[where] < before[where]}
    assert sooner == {"default.csv", "elsewhere"}
    first = min(Bucket("events", "default", live(store)[n][0]).starts_us for n in range(20))
    assert after[str(tmp_path / "default.csv")] == first


POINTS = (
    "removal-intent.after", "rewrite-intent.after", "publish.after", "rewrite-commit.before",
    "rewrite-commit.after", "remove.after", "receipt.before",
)  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("successor", ["shorten", "sweep", "merge"])
def test_a_shortening_that_was_killed_moves_each_row_once(
    tmp_path: Path, point: str, successor: str
) -> None:
    store, left = Store.open(tmp_path / "lake", create=True), 2
    write(store, {offset: offset * DAY_US for offset in range(4)})

    def kill(name: str) -> None:
        nonlocal left
        left -= name == point
        if name == point and left <= 0:
            raise Killed

    faultpoints.install(kill)
    with suppress(Killed):
        shorten(store, policy("25d"))
    faultpoints.install(None)
    assert left <= 1 and len(live(store)) == 4
    if successor == "sweep":
        sweep(store, LATER_US)
    elif successor == "merge":
        for bucket in {parse_bucket(file.path) for file in read_lake(store).files["events"]}:
            assert bucket is not None
            Rewriter(store, new_claim(), LATER_US).compact(bucket)
    shorten(store, policy("25d"))
    sweep(store, LATER_US)
    assert len(live(store)) == 4 and is_whole(store)
    assert all(live(store)[n][1] == NOW_US + (25 - n) * DAY_US for n in range(4))
    assert read_lake(store).strays().outside == read_lake(store).strays().pending == ()


def test_a_shortening_that_slept_while_another_took_over_changes_nothing(store: Store) -> None:
    def overtake(name: str) -> None:
        if name == "rewrite-commit.before":
            faultpoints.install(None)
            sweep(store, LATER_US)

    faultpoints.install(overtake)
    with pytest.raises(LostPartition):
        shorten(store, policy("25d"))
    assert all(live(store)[n][1] == NOW_US + (30 - n) * DAY_US for n in range(20))
    shorten(store, policy("25d"))
    sweep(store, LATER_US)
    assert len(live(store)) == 25 and is_whole(store)


def test_the_command_line_shows_what_would_move_then_moves_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "lake", create=True)
    far_us = Bucket("events", "default", "2099-10-22T00").starts_us
    for number, name in enumerate(("default", "other")):
        row = event(number, deadline=far_us + HOUR_US)
        part = Part("events", name, "2099-10-22T00", pa.Table.from_pylist([row], schema=EVENTS))
        writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
        about = header(number, number + 1, counts={"events": 1})
        written = writer.write(MaskedSlice(about, (part,)))
        assert written is not None
        writer.commit(written)
    file = tmp_path / "retention.yaml"
    file.write_text("default: default\nclasses: {default: {lifetime: 18262d, bucket: day}}\n")
    run = CliRunner().invoke
    words = ["retention", "shorten", "--lake", store.location, "--policy", str(file), "--json"]
    shown = json.loads(run(app, [*words, "--dry-run"]).stdout)
    assert shown == {
        "rows": {"events/retention_class=default/expires=2099-10-22T00": 1},
        "unknown_classes": ["other"],
    }
    assert run(app, words).exit_code != 0  # without a reason
    done = json.loads(run(app, [*words, "--reason", "less is enough"]).stdout)
    assert [each["moved_rows"] for each in done["buckets"]] == [1]
    assert live(store)[0][1] == NOW_US + 18262 * DAY_US and is_whole(store)


def test_a_sweep_of_the_bucket_that_rows_are_moved_to_calls_the_move_off(store: Store) -> None:
    """What never arrives there does not outlive the bucket, and nothing is lost."""
    swept = []

    def sweep_targets(name: str) -> None:
        if name == "rewrite-commit.before":
            faultpoints.install(None)
            coming = [path for path in read_lake(store).strays().pending if "/moved-" in path]
            buckets = sorted({bucket for path in coming if (bucket := parse_bucket(path))})
            remover = Remover(
                store,
                purpose="sweep",
                claim=new_claim(),
                now_us=LATER_US,
                keep_in=lambda bucket: lambda rows: np.ones(rows.num_rows, np.bool_),
                note=lambda going: None,
                with_strays=True,
            )
            swept.extend(remover.remove(bucket) for bucket in buckets)
            assert not any(standing(store, bucket) for bucket in buckets)

    faultpoints.install(sweep_targets)
    with pytest.raises(LostPartition):
        shorten(store, policy("25d", "hour"))
    assert swept and len(live(store)) == 25 and is_whole(store)
    assert moved(shorten(store, policy("25d", "hour"))) == 20
    assert len(live(store)) == 25 and is_whole(store)


def standing(store: Store, bucket: Bucket) -> list[str]:
    return [item.key for item in store.walk(bucket.folder)]
