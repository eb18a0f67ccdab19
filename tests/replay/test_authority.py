"""A live call in a replay needs a grant: scoped, current, and given for it."""

from contextlib import suppress
from typing import Any

import pytest
from replay_samples import KEYS, NOW_US, RULESET, record, recording, refuse

from pipeline.emitter import World
from pipeline.emitter.calls import effect_key
from pipeline.errors import UsageError
from pipeline.replay import Authority, Grant, RecordedRun, Replayed, Replayer
from pipeline.replay.errors import Unauthorised
from pipeline.replay.replayer import Forensic

HOUR_US = 3_600_000_000
LATER_US = NOW_US + HOUR_US
KEY = effect_key("fresh-1", "send", 0)


def agent(world: World, task: Any, approval: str | None = None) -> Any:
    found = world.tool("look", {}, lambda asked: "found")
    world.effect("send", {"to": found}, lambda given, key: key, approval=approval)
    return found


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    return record(lambda world, task: agent(world, task, "approval-1"))


class One:
    """An archive of one run."""

    def run(self, run_id: str, attempt: int | None = None) -> RecordedRun:
        raise AssertionError("a fresh run is handed its record")

    def ruleset_of(self, run: RecordedRun) -> Any:
        return RULESET


def fresh(run: RecordedRun, *grants: Grant, now_us: int = NOW_US, by: Any = agent) -> Replayed:
    authority = Authority(grants, now_us=NOW_US, spent=run.approvals)
    replayer = Replayer(One(), KEYS, clock=lambda: now_us)
    return replayer.fresh(run, by, recording(), authority, run_id="fresh-1")


def grants(operation: str = KEY, approval: str = "") -> tuple[Grant, Grant]:
    return (
        Grant("tool", "look", LATER_US),
        Grant("effect", "send", LATER_US, operation, approval),
    )


def test_with_its_grants_a_fresh_run_is_a_run_of_its_own(run: RecordedRun) -> None:
    done = fresh(run, *grants())
    assert (done.outcome, done.returned) == ("done", "found")
    assert {event.run_id for event in done.events} == {"fresh-1"}


def test_without_an_authority_nothing_is_called(run: RecordedRun) -> None:
    done = fresh(run)
    assert done.outcome == "unauthorised" and done.stopped is not None
    assert (done.stopped["boundary"], done.stopped["name"]) == ("tool", "look")


@pytest.mark.parametrize("operation", [effect_key("run-1", "send", 0), "send", ""])
def test_an_effect_needs_the_grant_of_this_very_operation(run: RecordedRun, operation: str) -> None:
    done = fresh(run, *grants(operation))
    assert done.outcome == "unauthorised" and done.stopped is not None
    assert done.stopped["boundary"] == "effect"


def test_an_old_approval_grants_nothing(run: RecordedRun) -> None:
    assert run.approvals == {"approval-1"}
    reused = fresh(run, *grants(), by=lambda world, task: agent(world, task, "approval-1"))
    assert reused.outcome == "unauthorised" and reused.stopped is not None
    assert "approval of the recorded run" in reused.stopped["message"]
    assert fresh(run, *grants(approval="approval-1")).outcome == "unauthorised"
    assert fresh(run, *grants(approval="approval-2")).outcome == "done"


def test_an_authority_runs_out_and_none_holds_for_long(run: RecordedRun) -> None:
    assert fresh(run, *grants(), now_us=LATER_US).outcome == "unauthorised"
    with pytest.raises(UsageError, match="not current"):
        Authority([Grant("tool", "look", NOW_US + 25 * HOUR_US)], now_us=NOW_US)


def test_an_agent_cannot_go_on_after_a_refusal(run: RecordedRun) -> None:
    def stubborn(world: World, task: Any) -> None:
        for _ in range(2):
            with suppress(Exception):
                world.tool("steal", {}, refuse)
        world.tool("look", {}, refuse)

    assert fresh(run, *grants(), by=stubborn).outcome == "unauthorised"


def test_a_live_look_up_needs_its_own_authority_and_is_a_later_observation(
    run: RecordedRun,
) -> None:
    forensic = Forensic(run, clock=lambda: NOW_US)
    assert set(forensic.effects.values()) == {"completed"}
    with pytest.raises(Unauthorised):
        forensic.look_up("look", {}, refuse, Authority(now_us=NOW_US))
    allowed = Authority(grants(), now_us=NOW_US)
    seen = forensic.look_up("look", {}, lambda asked: "now", allowed)
    assert (seen.value, seen.observed_at_us, seen.is_later) == ("now", NOW_US, True)


@pytest.mark.parametrize("text", ["look", "clock:now", "effect:send", "tool:"])
def test_a_grant_that_says_too_little_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Grant.parse(text, LATER_US)
