"""The agent's boundary, live: everything is recorded, masked, before and after it happens."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from replay_samples import KEYS, bodies, recording

from pipeline.emitter import AsyncWorld, CallFailed, Spool, SpoolFull, World
from pipeline.emitter.journal import TASK, Journal
from pipeline.emitter.spool import read_spool
from pipeline.replay.session import Kept
from schemas import RunEvent, decode, encode

ADDRESS = "jane.doe@example.com"


def run(agent: Any, sink: Any, journals: Path | None = None, **options: Any) -> Any:
    with recording(journals).run({"from": ADDRESS}, sink, run_id="run-1", **options) as world:
        return agent(world)


def all_calls(world: World) -> tuple[Any, ...]:
    found = world.tool("look", {"address": ADDRESS}, lambda asked: {"address": asked["address"]})
    said = world.model("m", {"messages": [found]}, lambda asked: {"message": {"content": "ok"}})
    sent = world.effect("send", {"to": ADDRESS}, lambda asked, key: {"key": key})
    world.message("assistant", f"I wrote to {ADDRESS}")
    world.decision("send", actor="agent")
    world.artifact("report", purpose="report")
    world.intervention("boss", "approve", "because")
    return found, said, sent, world.now(), world.random()


def test_every_call_is_recorded_before_and_after_and_masked() -> None:
    kept = Kept()
    found, said, sent, now, drawn = run(all_calls, kept)
    assert found == {"address": ADDRESS} and said["message"]["content"] == "ok"
    kinds = [event.kind_name or event.kind for event in kept.events]
    assert kinds[4:] == [
        *("tool.requested", "tool.responded", "model.requested", "model.responded"),
        *("effect.intended", "effect.completed", "message", "decision.made"),
        *("artifact.produced", "intervention", "clock.read", "random.drawn", "run.finished"),
    ]
    assert ADDRESS not in repr(kept.events) and "[EMAIL:" in repr(kept.events)
    assert [event.sequence for event in kept.events] == list(range(len(kept.events)))
    asked, answered = kept.events[4:6]
    assert asked.call_id == answered.call_id
    assert json.loads(asked.body)["occurrence"] == 0
    assert all(decode(encode(event)) == event for event in kept.events)
    effects = [event.idempotency_key for event in kept.events if event.kind.startswith("effect")]
    assert effects == [sent["key"]] * 2
    assert now.isoformat(timespec="microseconds") in kept.events[-3].body
    assert float.fromhex(json.loads(kept.events[-2].body)["content"]) == drawn


def test_masks_are_declared_with_their_rules() -> None:
    kept = Kept()
    run(all_calls, kept)
    for event in kept.events:
        assert ("[EMAIL:" in event.body) == any(r.label == "EMAIL" for r in event.redactions)
        assert event.ruleset == kept.events[0].ruleset


def test_a_key_comes_from_run_name_and_occurrence_and_from_nothing_else() -> None:
    def keys_of(text: str, attempt: int) -> list[str]:
        def agent(world: World) -> list[str]:
            names = ("send", "send", "post")
            return [world.effect(name, {"text": text}, lambda asked, key: key) for name in names]

        found: list[str] = run(agent, Kept(), attempt=attempt)
        return found

    assert keys_of("one", 1) == keys_of("other", 2)
    assert len(set(keys_of("one", 1))) == 3


def test_an_effect_waits_until_its_intent_is_durable() -> None:
    class Slow(Kept):
        synced = 0

        def sync(self) -> None:
            self.synced = len(self.events)

    sink = Slow()

    def send(asked: Any, key: str) -> None:
        assert sink.events[-1].kind == "effect.intended"
        assert sink.synced == len(sink.events)

    run(lambda world: world.effect("send", {}, send), sink)


def test_what_a_model_is_asked_is_recorded_as_it_was_asked_while_it_answers() -> None:
    class Held(Kept):
        """Takes nothing while it is held."""

        free = threading.Event()

        def emit(self, event: RunEvent, /) -> None:
            assert event.kind != "model.requested" or self.free.wait(60)
            super().emit(event)

    sink, request = Held(), {"messages": [{"role": "user", "content": ADDRESS}]}

    def ask(asked: Any) -> Any:
        assert sink.events[-1].kind == "tool.responded"
        request["messages"].clear()
        sink.free.set()
        return {"message": {"content": "ok"}}

    def agent(world: World) -> None:
        def look(asked: Any) -> None:
            assert sink.events[-1].kind == "tool.requested"

        world.tool("look", {}, look)
        world.model("m", request, ask)
        world.tool("look", {}, look)

    run(agent, sink)
    (asked,) = [event for event in sink.events if event.kind == "model.requested"]
    assert len(json.loads(asked.body)["messages"]) == 1 and "[EMAIL:" in asked.body
    assert [event.sequence for event in sink.events] == list(range(len(sink.events)))
    times = [event.occurred_at for event in sink.events]
    assert times == sorted(times)


def test_an_event_that_found_no_room_while_a_model_answered_raises_then() -> None:
    class Full(Kept):
        def emit(self, event: RunEvent, /) -> None:
            if event.kind == "model.requested":
                raise SpoolFull("full", code="spool-full")
            super().emit(event)

    kept = Full()
    with pytest.raises(SpoolFull):
        run(lambda world: world.model("m", {}, lambda asked: {"message": "ok"}), kept)
    assert "model.responded" not in [event.kind for event in kept.events]


def test_a_failed_call_raises_one_error_in_every_mode_and_is_recorded() -> None:
    kept = Kept()

    def agent(world: World) -> str:
        with pytest.raises(CallFailed) as caught:
            world.tool("divide", {}, lambda asked: 1 / 0)
        return caught.value.type

    assert run(agent, kept) == "ZeroDivisionError"
    answered = json.loads(kept.events[-2].body)
    assert answered["status"] == "error" and "division" in answered["content"]["message"]


def test_an_agent_that_fails_leaves_a_failed_run() -> None:
    kept = Kept()
    with pytest.raises(KeyError):
        run(lambda world: {}["missing"], kept)
    assert json.loads(kept.events[-1].body) == {"status": "failed", "summary": "KeyError"}


def test_what_cannot_be_examined_is_withheld_and_never_raw() -> None:
    kept = Kept()
    deep: Any = ADDRESS
    for _ in range(2_000):
        deep = [deep]
    run(lambda world: world.tool("look", {}, lambda asked: deep), kept)
    assert json.loads(kept.events[-2].body).keys() == {"withheld"}
    assert ADDRESS not in repr(kept.events)


def test_calls_that_overlap_keep_their_own_results() -> None:
    kept = Kept()

    async def agent(world: AsyncWorld) -> list[Any]:
        async def look(asked: Any) -> Any:
            await asyncio.sleep(0.01 * (3 - asked))
            return asked

        return list(await asyncio.gather(*(world.tool("look", n, look) for n in range(3))))

    with recording().run(None, kept, run_id="run-1", world=AsyncWorld) as world:
        assert asyncio.run(agent(world)) == [0, 1, 2]
    answers = {e.call_id: json.loads(e.body)["content"] for e in kept.events if _is_answer(e)}
    assert answers == {"call-1": 0, "call-2": 1, "call-3": 2}


def _is_answer(event: RunEvent) -> bool:
    return event.kind == "tool.responded"


def test_the_journal_holds_open_steps_only_sealed_and_for_its_owner(tmp_path: Path) -> None:
    seen: list[Path] = []

    def look(asked: Any) -> None:
        seen.extend(path for path in tmp_path.rglob("*") if path.is_file())
        for path in seen:
            assert path.stat().st_mode & 0o777 == 0o600
            assert ADDRESS.encode() not in path.read_bytes()
        assert Journal(tmp_path, KEYS, "run-1").read("call-1") == {"arguments": {"to": ADDRESS}}
        assert Journal(tmp_path, KEYS, "run-1").read(TASK) == {"from": ADDRESS}

    def agent(world: World) -> None:
        world.tool("look", {"to": ADDRESS}, look)
        assert len(seen) == 2
        assert Journal(tmp_path, KEYS, "run-1").read("call-1") is None

    run(agent, Kept(), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_journal_is_of_use_for_a_day_to_its_run_and_under_its_key(tmp_path: Path) -> None:
    clock_s = [1_000_000.0]
    journal = Journal(tmp_path, KEYS, "run-1", lambda: clock_s[0])
    journal.put("call-1", "raw")
    assert journal.read("call-1") == "raw"
    assert journal.read("call-2") is None
    assert Journal(tmp_path, KEYS.generate(), "run-1", lambda: clock_s[0]).read("call-1") is None
    clock_s[0] += 24 * 3600 + 1
    assert journal.read("call-1") is None
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    moved = Journal(tmp_path / "other", KEYS, "run-2", lambda: 1_000_000.0)
    path.rename(next((tmp_path / "other").iterdir()) / path.name)
    assert moved.read("call-1") is None


def test_a_journal_that_nobody_closed_goes_after_a_day(tmp_path: Path) -> None:
    journal = Journal(tmp_path, KEYS, "run-1")
    journal.put("call-1", "raw")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    Journal(tmp_path, KEYS, "run-2", lambda: path.stat().st_mtime + 24 * 3600 + 1)
    assert not path.exists()


def test_a_run_in_a_spool_is_what_was_recorded(tmp_path: Path) -> None:
    path, kept = tmp_path / "run.spool", Kept()
    spool = Spool(path)
    run(all_calls, spool)
    run(all_calls, kept)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [kind for kind, _, _ in bodies(read_spool(path))] == [
        kind for kind, _, _ in bodies(kept.events)
    ]
