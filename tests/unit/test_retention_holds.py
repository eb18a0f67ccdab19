"""Holds: the rows they name stay, the rest of the bucket goes, and a release ends it."""

import json
from pathlib import Path
from typing import Any

import pytest
from lake_samples import BUCKET, DEADLINE_US, NOW_US, header, rows
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.errors import UsageError
from pipeline.lake.commits import SliceCommitter
from pipeline.lake.layout import Bucket, new_claim
from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.removal import Remover
from pipeline.lake.store import Store
from pipeline.lake.sweeping import Rewriter
from pipeline.lake.verify import Checks, verify
from pipeline.retention.holds import Rows, add_hold, read_holds, release_hold
from pipeline.retention.ledger import Receipt
from pipeline.retention.plan import plan_retention
from pipeline.retention.subjects import pseudonyms_of
from pipeline.retention.survey import survey
from pipeline.retention.sweep import Sweeper
from pipeline.slices import MaskedSlice, Part
from redactors import KeyRing

EVENTS = Bucket("events", "default", BUCKET)
ENDED_US = EVENTS.starts_us
STRUCTURE = Checks(leaks=False, newer=False, processes=1)
run = CliRunner().invoke


def write(store: Store, start: int, end: int, **columns: Any) -> None:
    """One slice of one partition, every row in `BUCKET`."""
    counts = {"events": end - start}
    part = Part("events", "default", BUCKET, rows(range(start, end), **columns))
    writer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    written = writer.write(MaskedSlice(header(start, end, counts=counts), (part,)))
    assert written is not None
    writer.commit(written)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Offsets 0 to 11 of runs 0, 1, 2 in turn, in two files; 6 to 11 are about a subject."""
    store = Store.open(tmp_path / "lake", create=True)
    write(store, 0, 6)
    write(store, 6, 12, subjects=["[SUBJECT:k1:alice]", "[SUBJECT:k1:bob]"])
    return store


def hold(store: Store, **conditions: Any) -> int:
    about = {"by": "tester", "reason": "case 7", "owner": "legal", "review_on": "2026-12-01"}
    return add_hold(store, Rows(**conditions), now_us=NOW_US, **about).number


def sweep(store: Store, now_us: int = ENDED_US) -> Receipt | None:
    return Sweeper(store, new_claim(), "tester", lambda: now_us).sweep(with_strays=True)


def offsets(store: Store) -> list[int]:
    return sorted(
        row["kafka_offset"]
        for file in read_lake(store).files["events"]
        for row in from_parquet(store.get(file.path)).to_pylist()
    )


def findings(store: Store) -> set[str]:
    return {found.code for found in verify(store.location, STRUCTURE).findings}


@pytest.mark.parametrize(
    ("conditions", "held"),
    [
        ({"runs": ("run-1",)}, [1, 4, 7, 10]),
        ({"subjects": ("[SUBJECT:k1:bob]", "[SUBJECT:k2:bob]")}, [6, 7, 8, 9, 10, 11]),
        ({"classes": ("default",), "from_us": NOW_US - 3, "until_us": NOW_US}, [1, 2, 3]),
        ({"runs": ("run-1",), "subjects": ("[SUBJECT:k1:alice]",)}, [7, 10]),
        ({"runs": ("run-7",)}, []),
        ({"runs": ("run-1",), "classes": ("legal",)}, []),
    ],
    ids=["run", "subject", "class and time", "run and subject", "no such run", "other class"],
)
def test_held_rows_stay_alone_and_the_rest_goes(
    store: Store, conditions: dict[str, Any], held: list[int]
) -> None:
    hold(store, **conditions)
    receipt = sweep(store)
    assert receipt is not None and receipt.is_complete
    assert [(each.rows, each.held_rows) for each in receipt.buckets] == [
        (12 - len(held), len(held))
    ]
    assert offsets(store) == held
    assert findings(store) <= {"document-missing"}
    assert sweep(store) is None


def test_a_release_puts_the_deadline_back(store: Store) -> None:
    number = hold(store, runs=("run-1",))
    hold(store, runs=("run-2",))
    sweep(store)
    release_hold(store, number, now_us=ENDED_US, by="tester", reason="case closed")
    assert [held.runs for held in read_holds(store).active] == [("run-2",)]
    receipt = sweep(store)
    assert receipt is not None and [each.rows for each in receipt.buckets] == [4]
    assert offsets(store) == [2, 5, 8, 11]
    assert findings(store) <= {"document-missing"}
    with pytest.raises(UsageError):
        release_hold(store, number, now_us=ENDED_US, by="tester", reason="again")


def test_held_rows_survive_compaction_and_are_swept_after_it(store: Store) -> None:
    hold(store, runs=("run-1",))
    rewriter = Rewriter(store, new_claim(), NOW_US)
    rewriter.compact(EVENTS)
    sweep(store)
    assert offsets(store) == [1, 4, 7, 10]
    write(store, 12, 15)  # a writer that was late
    rewriter.compact(EVENTS)
    sweep(store)
    assert offsets(store) == [1, 4, 7, 10, 13]
    assert findings(store) <= {"document-missing"}
    release_hold(store, 1, now_us=ENDED_US, by="tester", reason="done")
    sweep(store)
    assert offsets(store) == [] and findings(store) <= {"document-missing"}


def test_a_file_that_cannot_be_read_is_not_removed_while_a_hold_may_need_it(store: Store) -> None:
    hold(store, runs=("run-1",))
    path = Path(store.location) / EVENTS.folder / "runs-0-000000000002.parquet"
    path.write_bytes(b"PAR1 torn")
    receipt = sweep(store)
    assert receipt is not None and not receipt.is_complete
    assert [each.code for each in receipt.failures] == ["unreadable"]
    assert path.exists()


def test_a_hold_that_names_nothing_is_refused(store: Store) -> None:
    with pytest.raises(UsageError):
        hold(store)


def test_a_plan_counts_held_rows_and_reminds_of_the_review(store: Store) -> None:
    hold(store, runs=("run-1",))
    plan = plan_retention(survey(store, ENDED_US, read_holds(store)), ENDED_US)
    assert (plan.rows, plan.held_rows, plan.to_review) == (8, 4, ())
    later = plan_retention(survey(store, DEADLINE_US, read_holds(store)), DEADLINE_US + 10**13)
    assert [held.number for held in later.to_review] == [1]


def test_the_command_line_names_subjects_by_pseudonym_only(store: Store, tmp_path: Path) -> None:
    ring = KeyRing.generate().rotated()
    ring.save(tmp_path / "keys.json")
    words = ["retention", "hold", "add", "--lake", store.location, "--subject", "alice"]
    words += ["--reason", "case 7", "--owner", "legal", "--review", "2026-12-01"]
    done = run(app, [*words, "--keys", str(tmp_path / "keys.json"), "--json"])
    assert done.exit_code == 0, done.output
    added = json.loads(done.stdout)
    assert tuple(added["subjects"]) == pseudonyms_of(["alice"], tmp_path / "keys.json")
    assert len(added["subjects"]) == len(ring.keys) == 2
    assert all(b"alice" not in store.get(item.key) for item in store.walk("_audit"))
    listed = json.loads(
        run(app, ["retention", "hold", "list", "--lake", store.location, "--json"]).stdout
    )
    assert listed == [added]
    words = ["retention", "release", "1", "--lake", store.location, "--reason", "closed"]
    assert run(app, words).exit_code == 0
    assert run(app, words).exit_code == 1  # a usage error, turned into exit code 2 by `main`
    shown = run(app, ["retention", "hold", "list", "--lake", store.location])
    assert "no hold is in force" in shown.stdout


def test_a_held_bucket_is_read_again_only_when_something_may_have_become_due(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = hold(store, runs=("run-1",))
    sweep(store)
    looks: list[Bucket] = []
    preview = Remover.preview

    def count(self: Remover, bucket: Bucket, columns: Any = None) -> Any:
        looks.append(bucket)
        return preview(self, bucket, columns)

    monkeypatch.setattr(Remover, "preview", count)
    for _ in range(3):
        assert sweep(store) is None
    hold(store, runs=("run-2",))
    assert sweep(store) is None and len(looks) == 1
    late = Path(store.location, EVENTS.folder, "runs-0-000000000009.parquet")
    late.write_bytes(b"a late upload")
    assert sweep(store) is not None and not late.exists()
    release_hold(store, number, now_us=ENDED_US, by="tester", reason="closed")
    assert sweep(store) is not None and offsets(store) == []
    assert not list(store.walk("_audit/held"))
