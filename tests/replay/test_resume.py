"""Resuming: nothing is done twice, nothing goes to a mask, every prefix leads to the same."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_samples import KEYS, RULES, recording

from pipeline.emitter import CallFailed, World
from pipeline.emitter.journal import Journal
from pipeline.errors import PipelineError, UsageError
from pipeline.replay import recorded_run, restart, resume
from pipeline.replay.session import Kept
from schemas import RunEvent

ADDRESS = "jane.doe@example.com"
TASK = {"from": ADDRESS}


class Dies(BaseException):
    """Stands for a kill: nothing catches it."""


class Shop:
    """Deterministic services that count; effects by key, and a death at a chosen moment."""

    def __init__(self, dies_at: int = -1, *, honours_keys: bool = True) -> None:
        self.calls: Counter[str] = Counter()
        self.sent: list[tuple[Any, str]] = []
        self._dies_at, self._made, self._honours = dies_at, 0, honours_keys

    def call(self, name: str, answer: Any) -> Any:
        self.calls[name] += 1
        self._made += 1
        if self._made == self._dies_at:
            raise Dies
        return answer

    def send(self, arguments: Any, key: str) -> Any:
        if not self._honours or key not in [known for _, known in self.sent]:
            self.sent.append((arguments, key))
        return self.call("send", {"queued": True})

    def look_up(self, key: str) -> Any:
        return {"queued": True} if key in [known for _, known in self.sent] else None


def agent_of(shop: Shop, *, honours_key: bool = True, look_up: Any = None) -> Any:
    def agent(world: World, task: Any) -> Any:
        world.message("user", "hello")
        order = world.tool("order", {"from": task["from"]}, lambda asked: shop.call("order", asked))
        try:
            world.tool("carrier", {"n": 1}, lambda asked: shop.call("carrier", None)["x"])
        except CallFailed:
            world.message("assistant", "again")
        said = world.model(
            "m", {"messages": [order]}, lambda asked: shop.call("model", {"message": {"n": 1}})
        )
        world.effect(
            "send",
            {"to": order["from"], "n": said["message"]["n"]},
            shop.send,
            honours_key=honours_key,
            look_up=look_up,
        )
        world.effect("send", {"to": order["from"], "n": 2}, shop.send, honours_key=True)
        world.decision("done")
        return {"to": order["from"]}

    return agent


def first_life(shop: Shop, journals: Path | None = None, **options: Any) -> list[RunEvent]:
    kept = Kept()
    with pytest.raises(Dies), recording(journals).run(TASK, kept, run_id="run-1") as world:
        agent_of(shop, **options)(world, TASK)
    return kept.events


def second_life(
    events: list[RunEvent], shop: Shop, journals: Path | None = None, *, resend: bool = False,
    **options: Any,
) -> list[RunEvent]:  # fmt: skip
    kept = Kept()
    resume(
        agent_of(shop, **options), recorded_run(events), kept, recording(journals), RULES,
        resend_unknown=resend,
    )  # fmt: skip
    return events + kept.events


def told(events: list[RunEvent]) -> list[tuple[Any, ...]]:
    return [(e.sequence, e.kind, e.name, e.call_id, e.idempotency_key, e.body) for e in events]


@pytest.fixture(scope="module")
def uninterrupted() -> list[RunEvent]:
    kept = Kept()
    with recording().run(TASK, kept, run_id="run-1") as world:
        agent_of(Shop())(world, TASK)
    return kept.events


@pytest.mark.parametrize("dies_at", range(1, 6))
def test_a_run_that_was_resumed_is_the_one_that_was_never_interrupted(
    dies_at: int, uninterrupted: list[RunEvent], tmp_path: Path
) -> None:
    shop = Shop(dies_at)
    events = first_life(shop, tmp_path)
    assert told(second_life(events, shop, tmp_path)) == told(uninterrupted)
    assert [arguments["to"] for arguments, _ in shop.sent] == [ADDRESS] * 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@settings(max_examples=40)
@given(cut=st.integers(min_value=0))
def test_resuming_from_any_prefix_gives_the_uninterrupted_run(
    cut: int, uninterrupted: list[RunEvent], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cut = 1 + cut % (len(uninterrupted) - 2)
    journals, shop = tmp_path_factory.mktemp("journals"), Shop()
    journal = Journal(journals, KEYS, "run-1")
    journal.put("task", TASK)
    done = second_life(uninterrupted[:cut], shop, journals)
    assert told(done) == told(uninterrupted)
    recorded = recorded_run(uninterrupted[:cut]).calls
    saved = Counter(call.name for call in recorded if call.answer is not None)
    assert shop.calls["order"] == 1 - min(1, saved["order"])
    assert shop.calls["send"] == 2 - saved["send"]


class Fuse:
    """Burns down by one at every moment in which a process may die; then nothing goes on."""

    def __init__(self, moments: int) -> None:
        self.left = moments

    def burn(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Dies


class Mortal(Kept):
    """A sink in which the process dies before or after it has taken an event."""

    def __init__(self, events: list[RunEvent], fuse: Fuse) -> None:
        self.events, self._fuse = events, fuse

    def emit(self, event: RunEvent, /) -> None:
        self._fuse.burn()
        super().emit(event)
        self._fuse.burn()


class Fused(Shop):
    """Services in which it dies before or after they have done what they were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.fuse = Fuse(0)

    def call(self, name: str, answer: Any) -> Any:
        self.fuse.burn()
        super().call(name, answer)
        self.fuse.burn()
        return answer

    def send(self, arguments: Any, key: str) -> Any:
        self.fuse.burn()
        return super().send(arguments, key)


def lives(shop: Fused, journals: Path, *moments: int) -> list[RunEvent]:
    """What a run recorded that died after so many moments of each life, and then went on."""
    events: list[RunEvent] = []
    for left in (*moments, 10**6):
        shop.fuse = Fuse(left)
        sink = Mortal(events, shop.fuse)
        try:
            if not events:
                with recording(journals).run(TASK, sink, run_id="run-1") as world:
                    agent_of(shop)(world, TASK)
            else:
                resume(agent_of(shop), recorded_run(events), sink, recording(journals), RULES)
        except Dies:
            if events and events[-1].kind != "run.finished":
                continue
        if events:
            break
    return events


def check(shop: Fused, events: list[RunEvent], uninterrupted: list[RunEvent]) -> None:
    """That nothing took place twice, and the record tells the run that was never interrupted."""
    keys = Counter(key for _, key in shop.sent)
    assert len(keys) == 2 and set(keys.values()) == {1}
    assert {arguments["to"] for arguments, _ in shop.sent} == {ADDRESS}
    assert told(events) == told(uninterrupted)


def test_no_effect_takes_place_twice_under_one_key_whenever_the_process_dies(
    uninterrupted: list[RunEvent], tmp_path: Path
) -> None:
    """Every moment, one after the other, until one comes too late."""
    for moment in itertools.count():
        shop = Fused()
        events = lives(shop, tmp_path / str(moment), moment)
        check(shop, events, uninterrupted)
        if 0 <= shop.fuse.left < 1_000:  # the first life has not died
            break
    assert moment > 2 * len(uninterrupted)


@settings(max_examples=15)
@given(moments=st.lists(st.integers(1, 60), min_size=2, max_size=4))
def test_nor_however_often_it_dies(
    moments: list[int],
    uninterrupted: list[RunEvent],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    shop = Fused()
    check(shop, lives(shop, tmp_path_factory.mktemp("journals"), *moments), uninterrupted)


def test_a_restart_keeps_the_keys_of_its_effects(tmp_path: Path) -> None:
    shop = Shop(4)
    events = first_life(shop, tmp_path)
    kept = Kept()
    restart(agent_of(shop), recorded_run(events), kept, recording(tmp_path))
    assert len(shop.sent) == 2
    assert {event.attempt for event in kept.events} == {2}
    assert {event.retry_of for event in kept.events} == {"run-1"}


def test_an_unknown_effect_stops_a_resume_unless_something_tells(tmp_path: Path) -> None:
    shop = Shop(4, honours_keys=False)
    events = first_life(shop, tmp_path, honours_key=False)
    assert recorded_run(events).calls[-1].answer is None
    with pytest.raises(PipelineError) as caught:
        second_life(events, shop, tmp_path, honours_key=False)
    assert caught.value.code == "unknown-effect" and len(shop.sent) == 1


def test_a_look_up_tells_what_became_of_an_effect(tmp_path: Path) -> None:
    shop = Shop(4, honours_keys=False)
    events = first_life(shop, tmp_path, honours_key=False, look_up=shop.look_up)
    second_life(events, shop, tmp_path, honours_key=False, look_up=shop.look_up)
    assert [arguments["n"] for arguments, _ in shop.sent] == [1, 2]


def test_an_unknown_effect_is_made_again_where_that_was_said(tmp_path: Path) -> None:
    shop = Shop(4, honours_keys=False)
    events = first_life(shop, tmp_path, honours_key=False)
    second_life(events, shop, tmp_path, honours_key=False, resend=True)
    assert [arguments["n"] for arguments, _ in shop.sent] == [1, 1, 2]
    assert {arguments["to"] for arguments, _ in shop.sent} == {ADDRESS}


def test_without_a_journal_a_masked_value_is_withheld() -> None:
    for dies_at in (1, 4):
        shop = Shop(dies_at)
        events = first_life(shop)
        with pytest.raises(PipelineError, match="value withheld") as caught:
            second_life(events, shop)
        assert caught.value.code == "withheld"
        assert ADDRESS not in json.dumps([str(caught.value), shop.calls])


def test_without_a_journal_a_masked_task_is_not_begun_again() -> None:
    events = first_life(Shop(1))
    shop = Shop()
    with pytest.raises(PipelineError) as caught:
        restart(agent_of(shop), recorded_run(events), Kept(), recording())
    assert caught.value.code == "withheld" and not shop.calls
    with pytest.raises(PipelineError) as caught:
        second_life(events[:1], shop)
    assert caught.value.code == "withheld" and not shop.calls


def test_a_step_whose_intent_was_not_saved_any_more_has_its_values(tmp_path: Path) -> None:
    def agent(world: World, task: Any) -> Any:
        found = world.tool("who", {}, lambda asked: ADDRESS)
        return world.tool("look", {"at": found}, lambda asked: asked["at"])

    events: list[RunEvent] = []
    with (
        pytest.raises(Dies),
        recording(tmp_path).run(None, Mortal(events, Fuse(12)), run_id="run-1") as world,
    ):
        agent(world, None)
    assert events[-1].kind == "tool.responded" and ADDRESS not in repr(events)
    # Its last answer is masked, so that only the journal has what was asked.
    returned = resume(agent, recorded_run(events), Kept(), recording(tmp_path), RULES)
    assert returned == ADDRESS


def test_a_run_that_has_ended_is_not_resumed(uninterrupted: list[RunEvent]) -> None:
    with pytest.raises(UsageError, match="has ended"):
        second_life(uninterrupted, Shop())


def test_an_answer_past_its_deadline_is_not_resumed_from(tmp_path: Path) -> None:
    events, shop = first_life(Shop(4), tmp_path), Shop()
    run = recorded_run(events, deadlines_us={event.event_id: 1 for event in events})
    with pytest.raises(PipelineError) as caught:
        resume(agent_of(shop), run, Kept(), recording(tmp_path), RULES)
    assert caught.value.code == "expired" and not shop.calls


def test_code_that_asks_otherwise_is_not_resumed(tmp_path: Path) -> None:
    events = first_life(Shop(4), tmp_path)

    def other(world: World, task: Any) -> None:
        world.message("user", "hello")
        world.tool("order", {"from": "john@example.com"}, lambda asked: asked)

    with pytest.raises(PipelineError) as caught:
        resume(other, recorded_run(events), Kept(), recording(tmp_path), RULES)
    assert caught.value.code == "diverged"
