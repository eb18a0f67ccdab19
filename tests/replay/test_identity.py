"""Replaying any recorded run is the identity: generated agents, generated values."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from replay_samples import RULES, player, record, refuse

from pipeline.emitter import CallFailed, World
from pipeline.replay.session import compared
from schemas import RunEvent

TELLING = (
    *("jane.doe@example.com", "Featherstonehaugh", "write to john@example.org today"),
    *("signing_key=" + "0123456789abcdef" * 3, "password: " + "correct horse " * 2, "4711", ""),
    *("[EMAIL:k1:AAAAAAAAAAAAAAAA]", "[SECRET]", "naïve — 東京 😀", '{"a": "b@example.com"}'),
    *("line\nbreak", "50%25", "\\u0041"),
)
NAMES = ("id", "email", "password", "last_name", "text", "jane.doe@example.com", "a/b~c")

texts = st.sampled_from(TELLING) | st.text(max_size=8)
scalars = (
    texts
    | st.integers()
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
names = st.sampled_from(["look", "ask", "send"])
steps = st.one_of(
    st.tuples(st.sampled_from(["tool", "fails", "echo"]), names, values, values),
    st.tuples(st.sampled_from(["model", "effect"]), names, objects, objects),
    st.tuples(st.sampled_from(["now", "random"]), names, st.none(), st.none()),
    st.tuples(st.sampled_from(["message", "decision"]), names, values, st.none()),
)


def agent_of(script: list[Any], *, is_live: bool) -> Any:
    """An agent that does what the script says, and hands on what it was answered."""

    def agent(world: World, task: Any) -> list[Any]:
        got: list[Any] = [task]
        for what, name, asked, answer in script:
            _do(world, got, what, name, asked, answering(answer) if is_live else refuse)
        return got

    return agent


def answering(answer: Any) -> Any:
    return lambda *_: answer


def _do(world: World, got: list[Any], what: str, name: str, asked: Any, call: Any) -> None:
    match what:
        case "tool":
            got.append(world.tool(name, asked, call))
        case "echo":
            got.append(world.tool(name, got[-1], call))
        case "fails":
            try:
                world.tool(name, asked, lambda given: fail(call(given)))
            except CallFailed as failed:
                got.append([failed.type, failed.message])
        case "model":
            got.append(world.model(name, asked, call))
        case "effect":
            got.append(world.effect(name, asked, call))
        case "now":
            got.append(world.now().isoformat())
        case "random":
            got.append(world.random())
        case "message":
            world.message(name, asked)
        case "decision":
            world.decision(str(asked), about=got[-1])


def fail(why: Any) -> None:
    raise RuntimeError(str(why))


def shape(events: tuple[RunEvent, ...]) -> list[Any]:
    """What a run did, and what it was answered."""
    answers = ("tool.responded", "model.responded", "effect.completed")
    return [
        (e.kind_name or e.kind, e.name, e.call_id, e.body if e.kind in answers else "")
        for e in events
    ]


@settings(max_examples=60)
@given(task=values, script=st.lists(steps, max_size=8))
def test_a_replay_of_any_run_is_the_run(task: Any, script: list[Any]) -> None:
    """The agent asks for what the script says, unmasked, and for what it was answered, masked."""
    run = record(agent_of(script, is_live=True), task)
    done = player().recorded(run, agent_of(script, is_live=False))
    done = compared(run, done, RULES.texts(run, by_label=False))
    assert (done.outcome, done.stopped, done.error) == ("same", None, "")
    assert shape(done.events) == shape(run.events)
