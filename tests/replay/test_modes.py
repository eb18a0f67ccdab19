"""Recorded replay: identity, order, occurrences, and what stops it."""

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from replay_samples import KEYS, NOW_US, RULES, RULESET, bodies, player, record, recording, refuse

from pipeline.emitter import AsyncWorld, CallFailed, MatchingPolicy, World
from pipeline.emitter.calls import Answer
from pipeline.emitter.policy import Rule
from pipeline.errors import PipelineError, UsageError
from pipeline.replay import Replayer, recorded_run
from pipeline.replay.record import RecordedRun
from pipeline.replay.session import Kept, Replayed, Rules, compared

ADDRESS = "jane.doe@example.com"
SURNAME = "Featherstonehaugh"


def greet(world: World, task: Any, *, text: str = "Your parcel", call: Any = None) -> Any:
    """Asks three times the same, sees a customer, writes to them."""
    answers = iter(range(3))
    seen = [world.tool("tick", {}, call or (lambda asked: next(answers))) for _ in range(3)]
    try:
        world.tool("carrier", {"parcel": "NX1"}, call or _carrier)
    except CallFailed as failed:
        seen.append(failed.message)
    customer = world.tool("customer", {"id": "C-1"}, call or _customer)
    asked = {"messages": [{"role": "user", "content": f"{seen} {customer}"}]}
    said = world.model("m-1", asked, call or (lambda request: {"message": {"content": "write"}}))
    letter = {"to": customer["email"], "text": f"Dear {customer['last_name']}, {text}"}
    world.effect("send", letter, call or (lambda given, key: {"queued": True}))
    world.message("assistant", said["message"]["content"] + f" to {customer['email']}")
    return {"seen": seen, "at": world.now().isoformat(), "drawn": world.random()}


def _carrier(asked: Any) -> Any:
    raise RuntimeError("403, signing_key=" + "0123456789abcdef" * 4 + " was rotated")


def _customer(asked: Any) -> Any:
    return {"email": ADDRESS, "last_name": SURNAME}


def replayed(run: RecordedRun, agent: Any, policy: MatchingPolicy | None = None) -> Replayed:
    done = player(policy).recorded(run, agent)
    return compared(run, done, RULES.texts(run, by_label=False))


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    return record(greet, {"about": "a parcel"})


def test_a_replay_is_the_same_and_calls_nothing(run: RecordedRun) -> None:
    done = replayed(run, lambda world, task: greet(world, task, call=refuse))
    assert (done.outcome, done.stopped) == ("same", None)
    assert done.returned["seen"][:3] == [0, 1, 2]
    assert "[SECRET]" in done.returned["seen"][3]
    assert bodies(done.events)[4:] == bodies(run.events)[4:]


def test_unmasked_requests_match_a_masked_record(run: RecordedRun) -> None:
    def agent(world: World, task: Any) -> None:
        """Knows the raw values from elsewhere; the record holds masks."""
        greet(_Raw(world), task, call=refuse)

    assert replayed(run, agent).outcome == "same"


class _Raw:
    """A world whose customer comes back unmasked."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def tool(self, name: str, arguments: Any, call: Any) -> Any:
        found = self._world.tool(name, arguments, call)
        return _customer(None) if name == "customer" else found


def test_a_request_that_differs_names_step_boundary_path_and_both_values(
    run: RecordedRun,
) -> None:
    done = replayed(run, lambda world, task: greet(world, task, text="Your dog", call=refuse))
    assert done.outcome == "diverged" and done.stopped is not None
    place = (done.stopped["step"], done.stopped["boundary"], done.stopped["name"])
    assert place == (0, "effect", "send")
    assert done.stopped["path"] == "/arguments/text"
    assert done.stopped["recorded"].endswith(", Your parcel")
    assert done.stopped["asked"].endswith(", Your dog")
    assert SURNAME not in repr(done)


def test_another_persons_address_is_no_match(run: RecordedRun) -> None:
    def agent(world: World, task: Any) -> None:
        for _ in range(3):
            world.tool("tick", {}, refuse)
        with pytest.raises(CallFailed):
            world.tool("carrier", {"parcel": "NX1"}, refuse)
        world.tool("customer", {"id": "C-1"}, refuse)
        asked = json.loads(next(e.body for e in run.events if e.kind == "model.requested"))
        world.model("m-1", asked, refuse)
        world.effect("send", {"to": "john@example.com", "text": "Dear [NAME]"}, refuse)

    done = replayed(run, agent)
    assert done.stopped is not None and done.stopped["path"] == "/arguments/to"


@pytest.mark.parametrize("name", ["customer", "carrier", "send"])
def test_a_missing_fixture_stops_the_run_there(run: RecordedRun, name: str) -> None:
    left = recorded_run(event for event in run.events if event.name != name)
    done = replayed(left, lambda world, task: greet(world, task, call=refuse))
    assert done.outcome == "missing" and done.stopped is not None
    assert done.stopped["name"] == name


def test_a_missing_answer_stops_the_run_there(run: RecordedRun) -> None:
    left = recorded_run(
        event for event in run.events if (event.kind, event.name) != ("tool.responded", "customer")
    )
    done = replayed(left, lambda world, task: greet(world, task, call=refuse))
    assert done.outcome == "missing" and done.stopped is not None
    assert done.stopped["name"] == "customer"


def test_a_fourth_of_three_equal_calls_is_missing(run: RecordedRun) -> None:
    def agent(world: World, task: Any) -> None:
        for _ in range(4):
            world.tool("tick", {}, refuse)

    done = replayed(run, agent)
    assert done.outcome == "missing" and done.stopped is not None
    assert done.stopped["name"] == "tick"


def test_another_order_of_calls_is_a_divergence(run: RecordedRun) -> None:
    done = replayed(run, lambda world, task: world.tool("customer", {"id": "C-1"}, refuse))
    assert done.outcome == "diverged" and done.stopped is not None
    assert (done.stopped["recorded"], done.stopped["asked"]) == ("tool tick", "tool customer")


def test_an_agent_that_stops_early_has_diverged(run: RecordedRun) -> None:
    done = replayed(run, lambda world, task: world.tool("tick", {}, refuse))
    assert done.outcome == "diverged"


def test_an_agent_that_says_something_else_has_diverged(run: RecordedRun) -> None:
    def agent(world: World, task: Any) -> None:
        greet(world, task, call=refuse)
        world.message("assistant", "and one more thing")

    done = replayed(run, agent)
    assert done.outcome == "diverged" and done.stopped is not None
    assert done.stopped["boundary"] == "message"


def test_an_agent_cannot_swallow_what_stops_it(run: RecordedRun) -> None:
    def agent(world: World, task: Any) -> None:
        for _ in range(2):
            with suppress(Exception):
                world.tool("unheard", {}, refuse)

    assert replayed(run, agent).outcome == "missing"


def test_a_run_that_failed_fails_again() -> None:
    def agent(world: World, task: Any) -> None:
        world.tool("tick", {}, lambda asked: 1)
        raise KeyError("no such thing")

    kept = Kept()
    with pytest.raises(KeyError), recording().run(None, kept, run_id="run-1") as world:
        agent(world, None)
    run = recorded_run(kept.events)
    assert replayed(run, agent).outcome == "same"
    assert replayed(run, lambda world, task: world.tool("tick", {}, refuse)).outcome == "same"


def test_overlapping_calls_may_change_places_and_others_may_not() -> None:
    async def agent(world: AsyncWorld, task: Any, order: tuple[int, ...] = (0, 1, 2)) -> list[Any]:
        async def look(asked: Any) -> Any:
            await asyncio.sleep(0)
            return asked * 10

        return list(await asyncio.gather(*(world.tool("look", n, look) for n in order)))

    kept = Kept()
    with recording().run(None, kept, run_id="run-1", world=AsyncWorld) as world:
        asyncio.run(agent(world, None))
    run = recorded_run(kept.events)

    async def turned(world: AsyncWorld, task: Any) -> list[Any]:
        return await agent(world, task, (2, 0, 1))

    done = replayed(run, turned)
    assert (done.outcome, done.returned) == ("same", [20, 0, 10])


def test_an_expired_fixture_is_refused(run: RecordedRun) -> None:
    deadlines = {event.event_id: NOW_US + 1 for event in run.events}
    kept = recorded_run(run.events, deadlines_us=deadlines)
    assert player().recorded(kept, greet).outcome == "same"
    late = player(now_us=NOW_US + 1)
    model = Answer({"message": {"content": "write"}})
    assert late.recorded(kept, greet).outcome == "expired"
    assert late.hybrid(kept, greet, ("model",), lambda call: model).outcome == "expired"


def test_without_the_key_a_run_is_refused_unless_labels_are_declared_to_do(
    run: RecordedRun,
) -> None:
    others = Rules(RULESET, KEYS.generate())
    strange = replace(player(), rules=others)
    with pytest.raises(PipelineError) as caught:
        strange.recorded(run, greet)
    assert caught.value.code == "key-gone"
    by_label = replace(strange, policy=MatchingPolicy(by_label=True))
    done = by_label.recorded(run, lambda world, task: greet(world, task, call=refuse))
    assert done.outcome == "same"


def test_a_rotated_ring_still_matches_under_the_records_own_key(run: RecordedRun) -> None:
    rotated = replace(player(), rules=Rules(RULESET, KEYS.rotated()))
    agent = lambda world, task: greet(_Raw(world), task, call=refuse)  # noqa: E731
    assert rotated.recorded(run, agent).outcome == "same"


def test_volatile_fields_are_not_compared_and_free_ones_in_a_hybrid_replay_only(
    run: RecordedRun,
) -> None:
    def agent(world: World, task: Any) -> Any:
        return greet(world, task, text="Your dog", call=refuse)

    volatile = MatchingPolicy(rules={"effect:*": Rule(volatile=("/arguments/text",))})
    free = MatchingPolicy(rules={"effect:send": Rule(free=("/arguments/text",))})
    assert player(volatile).recorded(run, agent).outcome == "same"
    assert player(free).recorded(run, agent).outcome == "diverged"
    model = Answer({"message": {"content": "write"}})
    done = player(free).hybrid(run, agent, ("model",), lambda call: model)
    assert (done.outcome, done.substituted) == ("done", ("model",))


def test_a_hybrid_replay_never_calls_what_is_not_substituted(run: RecordedRun) -> None:
    asked = []

    def provider(call: Any) -> Answer:
        asked.append((call.boundary, call.name))
        return Answer({"message": {"content": "otherwise"}})

    def agent(world: World, task: Any) -> Any:
        greet(world, task, call=refuse)
        world.tool("depot", {}, refuse)

    done = player().hybrid(run, agent, ("model",), provider)
    assert done.outcome == "missing" and asked == [("model", "m-1")]


def test_the_policy_is_in_the_record_and_another_is_refused(run: RecordedRun) -> None:
    class One:
        def run(self, run_id: str, attempt: int | None = None) -> RecordedRun:
            return run

        def ruleset_of(self, run: RecordedRun) -> Any:
            return RULESET

    assert run.matching == MatchingPolicy()
    assert Replayer(One(), KEYS).policy_of([run]) == run.matching
    other = Replayer(One(), KEYS, MatchingPolicy(by_label=True))
    with pytest.raises(UsageError, match="another matching policy"):
        other.policy_of([run])
