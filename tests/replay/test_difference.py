"""Where two runs differ, and what kind of difference that is."""

from dataclasses import replace
from typing import Any

from replay_samples import KEYS, RULES, RULESET, record, recording

from pipeline.emitter import World
from pipeline.replay import recorded_run
from pipeline.replay.difference import Declared, Found, all_differences, first_difference
from pipeline.replay.masked import MaskedText
from pipeline.replay.page import page
from pipeline.replay.record import RecordedRun
from pipeline.replay.session import Kept
from redactors import Redactor
from redactors.engine import masks_of

ADDRESS = "jane.doe@example.com"


def run(
    *,
    prompt: str = "Be kind.",
    status: str = "on its way",
    text: str = "tomorrow",
    model: str = "m-1",
    asked: str = "NX1",
    said: str = "done",
    keys: Any = None,
) -> RecordedRun:
    def agent(world: World, task: Any) -> None:
        def ask(turn: int, answer: Any) -> None:
            messages = [{"role": "system", "content": prompt}, {"role": "user", "content": turn}]
            request = {"requested_model": model, "messages": messages}
            world.model("support", request, lambda _: {"message": answer})

        ask(0, {"tool": "carrier"})
        world.tool("carrier", {"parcel": asked}, lambda _: {"state": status})
        ask(1, {"tool": "send", "arguments": {"to": ADDRESS, "text": text}})
        world.effect("send", {"to": ADDRESS, "text": text}, lambda given, key: None)
        world.message("assistant", said)

    if keys is None:
        return record(agent)
    kept, other = Kept(), replace(recording(), redactor=Redactor(RULESET, keys, by="emitter"))
    with other.run(None, kept, run_id="run-1") as world:
        agent(world, None)
    return recorded_run(kept.events)


def first(one: RecordedRun, other: RecordedRun, declared: Declared | None = None) -> Found | None:
    texts = MaskedText(masks_of(RULESET, KEYS), KEYS)
    return first_difference(one, other, texts, declared or Declared())


def place(found: Found | None) -> tuple[Any, ...]:
    assert found is not None
    return found.step, found.boundary, found.side, found.path, found.kind


def test_a_run_does_not_differ_from_itself() -> None:
    assert first(run(), run()) is None


def test_what_a_model_is_asked_is_behaviour_unless_it_was_declared() -> None:
    one, other = run(), run(prompt="Be brief.")
    assert place(first(one, other)) == (
        0, "model", "request", "/messages/0/content", "behaviour",
    )  # fmt: skip
    assert first(one, other, Declared(prompt=True)) is None
    assert first(one, other, Declared(paths=("/messages/0",))) is None
    assert first(one, other, Declared(model=True)) is not None
    assert first(one, run(model="m-2"), Declared(model=True)) is None


def test_a_substituted_model_that_answers_otherwise_behaves_otherwise() -> None:
    one, other = run(), run(prompt="Be brief.", text="on Monday")
    found = place(first(one, other, Declared(prompt=True)))
    assert found == (1, "model", "answer", "/message/arguments/text", "behaviour")


def test_a_model_that_answers_the_same_otherwise_is_chance() -> None:
    found = place(first(run(), run(text="on Monday")))
    assert found == (1, "model", "answer", "/message/arguments/text", "nondeterminism")


def test_a_tool_that_answers_the_same_otherwise_is_the_environment() -> None:
    found = place(first(run(), run(status="held")))
    assert found == (0, "tool", "answer", "/content/state", "environment")


def test_what_an_agent_asks_and_says_is_behaviour() -> None:
    assert place(first(run(), run(asked="NX2")))[1:] == (
        "tool", "request", "/arguments/parcel", "behaviour",
    )  # fmt: skip
    assert place(first(run(), run(said="done!")))[1:] == (
        "message", "note", "/content", "behaviour",
    )  # fmt: skip


def test_another_key_is_redaction_and_stands_behind_what_matters() -> None:
    strange = KEYS.generate()
    found = first(run(), run(keys=strange))
    assert found is not None and found.kind == "redaction"
    mixed = first(run(), run(keys=strange, said="done!"))
    assert mixed is not None and mixed.kind == "behaviour"


def test_a_call_that_only_one_run_made_is_a_difference() -> None:
    one = run()
    other = recorded_run(event for event in one.events if event.name != "carrier")
    found = first(one, other)
    assert found is not None
    told = (found.boundary, found.name, found.side, found.one)
    assert told == ("tool", "carrier", "call", "called")


def test_another_environment_is_told_first() -> None:
    one = run()
    events = [
        replace(event, body=event.body.replace("python", "pypy"))
        if event.kind == "environment.captured"
        else event
        for event in one.events
    ]
    found = first(one, recorded_run(events))
    assert found is not None
    assert (found.step, found.boundary, found.kind) == (0, "environment.captured", "environment")


def test_all_differences_come_on_demand_and_on_a_page_that_runs_nothing() -> None:
    one, other = run(), run(status="<b>held</b>", said="<script>no</script>")
    texts = RULES.texts(one, by_label=False)
    found = list(all_differences(one, other, texts))
    assert [each.kind for each in found] == ["environment", "behaviour"]
    shown = page(one, other, found)
    assert "&lt;b&gt;held" in shown and "<script" not in shown
    assert "default-src 'none'" in shown and ADDRESS not in shown


def test_two_people_are_two_people() -> None:
    found = first(run(said=f"to {ADDRESS}"), run(said="to john@example.com"))
    assert found is not None and found.kind == "behaviour"
