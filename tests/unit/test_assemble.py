"""Assembly: runs end, time out, are re-opened; what the log says is what the state is."""

from typing import Any

import pyarrow as pa
import pytest
from obstore.store import MemoryStore
from run_samples import HOUR_US, NOW_US, TIMEOUT_US, Ingest, gaps, row, sliced, states, tick

from pipeline import assemble
from pipeline.assemble import Assembler
from pipeline.errors import LogError
from pipeline.lake import layout
from pipeline.lake.live import read_lake
from pipeline.lake.store import Store
from pipeline.records.events import events_of
from pipeline.records.fold import begin, fold
from pipeline.records.state import unpack
from pipeline.retention.policy import DAY_US, Policy
from pipeline.slices import Part
from pipeline.state.chain import read_chain
from schemas.parquet import EVENTS

START = {"kind": "run.started", "body": {"trigger": {"type": "test"}}}
MODEL = {"kind": "model.requested", "name": "m"}
END = {"kind": "run.finished", "body": {"status": "completed"}}


@pytest.fixture
def store() -> Store:
    return Store(MemoryStore(), "memory")


@pytest.fixture
def ingest(store: Store) -> Ingest:
    return Ingest(store)


def test_a_run_without_an_end_gets_no_record_until_its_time_is_over(ingest: Ingest) -> None:
    ingest.take_all([START, {}, {}])
    assert ingest.records() == {}
    assert not ingest.take(tick(3, NOW_US + TIMEOUT_US - 1))
    assert ingest.take(tick(3, NOW_US + TIMEOUT_US))
    record = ingest.records()["run", 1]
    assert (record["status"], record["events"], record["complete"]) == ("abandoned", 3, False)
    assert ("steps.end", "missing") in gaps(record)


def test_an_abandoned_run_that_goes_on_is_told_anew(ingest: Ingest) -> None:
    events = [START, {}, {**END, "at_s": 5}]
    ingest.take(sliced(events, 0, 2))
    ingest.take(tick(2, NOW_US + TIMEOUT_US))
    ingest.take(sliced(events, 2, 3, NOW_US + TIMEOUT_US + 1))
    record = ingest.records()["run", 1]
    assert (record["status"], record["events"], record["version"]) == ("completed", 3, 2)
    assert sorted(each["version"] for each in ingest.versions()) == [1, 2]


def test_a_late_event_makes_a_new_version_and_the_next_one_too(ingest: Ingest) -> None:
    events = [START, END, {}, {}]
    ingest.take_all(events, cuts=[2, 3])
    assert [each["version"] for each in ingest.versions()] == [1, 2, 3]
    assert ingest.records()["run", 1]["steps"]["messages"] == 2


def test_once_its_time_is_over_a_finished_run_leaves_the_state(ingest: Ingest) -> None:
    ingest.take_all([START, END])
    assert ingest.take(tick(2, NOW_US + TIMEOUT_US))
    assert ingest.take(tick(2, NOW_US + 2 * TIMEOUT_US)), "a base, so that it leaves the disk too"
    assert not ingest.take(tick(2, NOW_US + 5 * TIMEOUT_US))
    assert len(ingest.versions()) == 1


def test_so_many_runs_time_out_in_one_slice_and_the_others_in_the_next(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "ENDS_MAX", 2)
    ingest.take_all([{**START, "run_id": f"run-{n}"} for n in range(5)])
    counts = []
    for minute in range(3):
        assert ingest.take(tick(5, NOW_US + TIMEOUT_US + minute * 60_000_000))
        counts.append(len(ingest.records()))
    assert counts == [2, 4, 5]


def test_an_abandoned_run_leaves_the_state_after_another_time_out(ingest: Ingest) -> None:
    ingest.take_all([START])
    assert ingest.take(tick(1, NOW_US + TIMEOUT_US))
    assert ingest.take(tick(1, NOW_US + 2 * TIMEOUT_US))
    assert not ingest.take(tick(1, NOW_US + 4 * TIMEOUT_US))
    assert len(ingest.versions()) == 1


def test_a_tick_that_is_repeated_after_its_commit_changes_nothing(
    store: Store, ingest: Ingest
) -> None:
    ingest.take_all([START])
    ingest.take(tick(1, NOW_US + TIMEOUT_US))
    before = {item.key for item in store.walk("")}
    ingest.take(tick(1, NOW_US + TIMEOUT_US))
    ingest.restart()
    ingest.take(tick(1, NOW_US + TIMEOUT_US))
    assert {item.key for item in store.walk("")} == before


def test_what_is_assembled_again_before_its_commit_is_the_same(ingest: Ingest) -> None:
    """A runner may lose what it was handed and ask once more."""
    ingest.take_all([START])
    passing = tick(1, NOW_US + TIMEOUT_US)
    first, again = (ingest._assembler.assemble(passing) for _ in range(2))
    assert first is not None and first == again


def test_runs_attempts_and_children_are_told_apart(ingest: Ingest) -> None:
    child = {"run_id": "child", "parent_run_id": "run", "sequence": 0}
    events: list[dict[str, Any]] = [
        {**START, "sequence": 0},
        {**child, **START},
        {**END, "sequence": 1},
        {**START, "attempt": 2, "retry_of": "run", "sequence": 0},
        {**child, **END, "sequence": 1},
        {**END, "attempt": 2, "retry_of": "run", "sequence": 1},
    ]
    ingest.take_all(events, cuts=[1, 2, 3, 4, 5])
    records = ingest.records()
    assert {key: record["events"] for key, record in records.items()} == {
        ("run", 1): 2,
        ("run", 2): 2,
        ("child", 1): 2,
    }
    assert records["child", 1]["identity"]["parent_run_id"] == "run"
    assert records["run", 2]["identity"]["retry_of"] == "run"


def test_events_out_of_order_give_the_record_of_the_right_order(ingest: Ingest) -> None:
    effect = {"kind": "effect.intended", "sequence": 2, "body": {"effect_id": "e", "actor": "a"}}
    done = {"kind": "effect.completed", "sequence": 3, "body": {"effect_id": "e", "status": "ok"}}
    late = {"kind": "task.captured", "sequence": 4, "body": {"task": "changed"}}
    task = {"kind": "task.captured", "sequence": 1, "body": {"task": "original"}}
    end, start = {**END, "sequence": 5}, {**START, "sequence": 0}
    ingest.take_all([done, late, effect, task, start, end], cuts=[1, 2, 3])
    record = ingest.records()["run", 1]
    assert record["task"]["snapshot"] == '"original"'
    assert record["effects"] == {"intended": 1, "completed": 1, "unknown": 0}
    assert record["authority"]["effects"][0]["actor"] == "a"
    assert record["holes"] == 0


def test_two_events_under_one_number_are_both_counted_and_said_to_be_ambiguous(
    ingest: Ingest,
) -> None:
    same = {"sequence": 1, "event_id": "other"}
    ingest.take_all([START, {}, same, {**END, "sequence": 2}])
    record = ingest.records()["run", 1]
    assert (record["events"], record["doubled"]) == (4, 0)
    assert ("steps.sequence", "1 events share the number of another") in gaps(record)


def test_content_of_events_that_go_sooner_is_referred_to_and_not_held(ingest: Ingest) -> None:
    task = {"kind": "task.captured", "class": "debug", "body": {"task": "in three days gone"}}
    ingest.take_all([START, task, END])
    record = ingest.records()["run", 1]
    assert "/retention_class=default/" in record["path"]
    assert record["task"]["snapshot"] is None
    evidence = record["task"]["evidence"]
    assert not evidence["is_embedded"] and evidence["digest"].startswith("sha256:")
    assert "in three days gone" not in str(record)
    assert states(record)["task"] == "present"


def test_a_record_goes_with_the_first_event_whose_content_it_holds(ingest: Ingest) -> None:
    decision = {"kind": "decision.made", "class": "legal", "body": {"decision": "go"}}
    early = {"kind": "task.captured", "at_s": -7200, "body": {"task": "told before the start"}}
    ingest.take_all([START, early, decision, END])
    record = ingest.records()["run", 1]
    deadline_us = record["deadline"].timestamp() * 1e6
    assert deadline_us == NOW_US - 2 * HOUR_US + 30 * DAY_US
    assert record["authority"]["decisions"][0]["decision"] == "go"


def test_content_that_is_sealed_or_read_for_purposes_only_is_never_copied() -> None:
    policy = Policy.model_validate(
        {
            "default": "open",
            "classes": {
                "open": {"lifetime": "30d", "bucket": "day"},
                "sealed": {"lifetime": "90d", "bucket": "day", "action": "seal-then-shred"},
                "asked": {"lifetime": "90d", "bucket": "day", "purposes": ["audit"]},
            },
        }
    )
    rows = pa.Table.from_pylist([row(0, {**MODEL, "body": {"settings": "zebra"}})], schema=EVENTS)
    for name, is_copied in (("open", True), ("sealed", False), ("asked", False)):
        (event,) = events_of([Part("events", name, "2026-10-21T00", rows)], policy)
        state = fold(begin("run", 1), event)
        assert ("zebra" in str(state)) == is_copied


def test_what_is_too_large_is_referred_to(ingest: Ingest) -> None:
    task = {"kind": "task.captured", "body": {"task": "long " * 2000, "source": "tracker"}}
    ingest.take_all([START, task, END])
    record = ingest.records()["run", 1]
    assert record["task"]["snapshot"] is None and record["task"]["source"] == "tracker"
    assert not record["task"]["evidence"]["is_embedded"]


def test_a_body_of_any_shape_makes_a_record(ingest: Ingest) -> None:
    odd: list[Any] = [
        [],
        "text",
        7,
        None,
        {"task": {"\ud800": "\udfff"}},
        {"image": [1], "tools": 5},
    ]
    kinds = ("task.captured", "policy.captured", "environment.captured", "model.responded")
    events = [{"kind": kind, "body": body} for kind in kinds for body in odd]
    ingest.take_all([START, *events, END])
    assert ingest.records()["run", 1]["events"] == len(events) + 2


def test_lists_are_bounded_and_the_record_says_what_it_leaves_out(ingest: Ingest) -> None:
    effects = [
        {"kind": "effect.intended", "body": {"effect_id": f"e{index}"}} for index in range(300)
    ]
    ingest.take_all([START, *effects, END])
    record = ingest.records()["run", 1]
    assert len(record["authority"]["effects"]) == 256
    assert ("effects", "44 more were left out") in gaps(record)


def test_past_the_bound_the_attempt_that_was_seen_least_recently_is_abandoned(
    store: Store,
) -> None:
    ingest = Ingest(store)
    ingest._assembler = Assembler(store, TIMEOUT_US, max_attempts=2)
    runs = [{"run_id": run, "sequence": n} for n, run in enumerate("abacd")]
    ingest.take_all(runs)
    assert {key[0]: record["status"] for key, record in ingest.records().items()} == {
        "a": "abandoned",
        "b": "abandoned",
    }


def test_a_slice_that_does_not_follow_the_log_is_refused(store: Store, ingest: Ingest) -> None:
    events = [START, {}, {}, END]
    ingest.take(sliced(events, 0, 1))
    ingest.restart()
    with pytest.raises(LogError) as error:
        ingest.take(sliced(events, 2, 3))
    assert error.value.code == "not-contiguous"


def test_a_slice_that_was_assembled_from_another_state_is_not_committed(store: Store) -> None:
    first, second = Ingest(store), Ingest(store)
    events = [START, {}, {}, END]
    first.take(sliced(events, 0, 1))
    second.take(sliced(events, 0, 1))  # finds it done, and knows the state from the log
    stale = second._assembler.assemble(sliced(events, 1, 2))
    first.take(tick(1, NOW_US + TIMEOUT_US))
    assert stale is not None
    with pytest.raises(LogError) as error:
        second._committer.write(stale)
    assert error.value.code == "state-differs"


def test_state_before_a_base_is_deleted(store: Store, ingest: Ingest) -> None:
    events = [{} for _ in range(200)]
    ingest.take_all(events, cuts=range(200))
    assert len(list(store.walk(layout.STATE))) <= 64
    ingest.restart()
    ingest.take(tick(200, NOW_US + TIMEOUT_US))
    assert ingest.records()["run", 1]["events"] == 200


def test_content_leaves_the_state_with_its_deadline(store: Store, ingest: Ingest) -> None:
    """A run may stay open for longer than what it holds."""
    task = {"kind": "task.captured", "class": "debug", "body": {"task": "mark of the task"}}
    events: list[dict[str, Any]] = [START, task, {}, {}, {}, {}]
    ingest.take(sliced(events, 0, 2))
    for index in range(4):
        ingest.take(sliced(events, 2 + index, 3 + index, NOW_US + index * DAY_US))
    (trail,) = read_lake(store).histories
    last = trail.position.last_commit
    assert last is not None
    chain = read_chain(store, "runs", 0, last.state_digest)
    held = [unpack(e.payload) for c in chain for e in c.document.attempts if e.payload]
    assert held and not any(item.content for state in held for item in state.items.get("task", ()))


def test_records_are_counted_beside_the_events(store: Store, ingest: Ingest) -> None:
    ingest.take_all([START, END])
    (history,) = read_lake(store).histories
    assert history.commits[0].counts["runs"] == 1
    assert history.commits[0].expired == 0
