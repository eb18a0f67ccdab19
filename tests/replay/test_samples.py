"""Recorded runs of real agents, ingested and masked, replayed by a policy that asks unmasked.

The policy's tools are those of a server that listens: whatever was called live would be seen there.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from demo_lake import ingest_events
from fake_providers import Provider, provider
from replay_samples import KEYS, NOW_US, RULES, recording

from pipeline.emitter import CallFailed, MatchingPolicy, World
from pipeline.emitter.ids import system_clock
from pipeline.formats import format_named, open_source
from pipeline.records.access import Opener
from pipeline.replay.archive import LakeArchive
from pipeline.replay.difference import first_difference
from pipeline.replay.record import RecordedRun, recorded_run
from pipeline.replay.session import Kept, Player, Replayed, compared
from schemas import RunEvent

RUNS = 6
"""Of each source; the long form takes all there are."""

SOURCES = {
    "tau-bench": "tau-bench/gpt-4o-airline.json.gz",
    "claude-code": "claude-code/*.jsonl.gz",
    "swe-agent": "swe-agent/*.traj.gz",
}


def raw_runs(shared: Path, name: str, limit: int | None) -> Iterator[list[RunEvent]]:
    """The events of runs that call tools, as their source tells them."""
    found: dict[str, list[RunEvent]] = {}
    for path in sorted((shared / "samples/runs").glob(SOURCES[name])):
        with open_source(path, system_clock()) as (source, _):
            for event in format_named(name).read(source):
                found.setdefault(event.run_id, []).append(event)
    with_calls = [events for events in found.values() if recorded_run(events).calls]
    yield from with_calls[:limit]


Tool = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with provider() as running:
        yield running


def tool_of(server: Provider) -> Tool:
    """Calls the server with the arguments of a tool, or of an effect and its key."""

    def call(arguments: Any, key: str = "") -> Any:
        return httpx.post(f"{server.url}/tool", json={"arguments": arguments, "key": key}).json()

    return call


def scripted(raw: RecordedRun, tool: Tool) -> Any:
    """A policy that asks for what the source did, unmasked, and gives what it got."""

    def agent(world: World, task: Any) -> list[Any]:
        given = []
        for call in raw.calls:
            arguments = call.request["arguments"]
            try:
                if call.boundary == "effect":
                    given.append(world.effect(call.name, arguments, tool))
                else:
                    given.append(world.tool(call.name, arguments, tool))
            except CallFailed as failed:
                given.append(failed.message)
        return given

    return agent


class Sample:
    """One run of a source, raw and as a lake holds it."""

    def __init__(self, events: list[RunEvent], archive: LakeArchive, server: Provider) -> None:
        self._server = server
        self.raw = recorded_run(events)
        self.run = archive.run(events[0].run_id)
        # A call that nobody answered ends a transcript: nobody can replay it further.
        answered = [call for call in self.run.calls if call.answer is not None]
        self.calls = len(answered)
        kept = {call.call_id for call in answered}
        self.raw.calls = [call for call in self.raw.calls if call.call_id in kept]
        self.run.calls = answered

    @property
    def policy(self) -> Any:
        return scripted(self.raw, tool_of(self._server))

    def replay(self, calls: list[Any] | None = None) -> Replayed:
        run = replace(self.run, calls=list(self.run.calls if calls is None else calls))
        called = len(self._server.paths)
        done = Player(RULES, MatchingPolicy(), NOW_US - 10**15).recorded(run, self.policy)
        assert len(self._server.paths) == called, "a replay has called a tool"
        return compared(run, done, RULES.texts(run, by_label=False))


def samples(
    shared: Path, folder: Path, name: str, limit: int | None, server: Provider
) -> list[Sample]:
    runs = list(raw_runs(shared, name, limit))
    events = [event for run in runs for event in run]
    lake = ingest_events(folder / name, events, system_clock(), keys=KEYS)
    opener = Opener(lake, "test", "replay", None, system_clock, KEYS)
    return [Sample(run, LakeArchive(opener), server) for run in runs]


@pytest.fixture(scope="module", params=list(SOURCES))
def some(
    request: pytest.FixtureRequest,
    shared: Path,
    tmp_path_factory: pytest.TempPathFactory,
    server: Provider,
) -> list[Sample]:
    return samples(shared, tmp_path_factory.mktemp("lakes"), request.param, RUNS, server)


def test_live_the_policy_calls_the_server_for_each_of_its_calls(
    some: list[Sample], server: Provider
) -> None:
    """Else a server that hears nothing would show nothing."""
    sample, called = some[0], len(server.paths)
    with recording().run(None, Kept(), run_id="live-1") as world:
        sample.policy(world, None)
    assert len(server.paths) - called == len(sample.raw.calls) > 0


def test_unmasked_requests_reproduce_the_recorded_sequence(some: list[Sample]) -> None:
    for sample in some:
        done = sample.replay()
        assert done.outcome == "same", done.stopped
        assert sample.calls
        asked = [
            event for event in done.events if event.kind in ("tool.requested", "effect.intended")
        ]
        assert [event.name for event in asked] == [call.name for call in sample.run.calls]


def test_with_one_fixture_removed_a_replay_stops_there_and_nobody_is_called(
    some: list[Sample],
) -> None:
    for sample in some:
        at = sample.calls // 2
        done = sample.replay([*sample.run.calls[:at], *sample.run.calls[at + 1 :]])
        assert done.outcome in ("missing", "diverged") and done.stopped is not None
        assert done.stopped["name"] == sample.run.calls[at].name
        answers = [e for e in done.events if e.kind in ("tool.responded", "effect.completed")]
        assert len(answers) == at


def test_with_one_request_altered_the_divergence_names_the_place(some: list[Sample]) -> None:
    for sample in some:
        at = sample.calls // 2
        call = sample.run.calls[at]
        arguments = call.request["arguments"]
        changed = {**arguments, "added": 1} if isinstance(arguments, dict) else f"{arguments}!"
        calls = list(sample.run.calls)
        calls[at] = replace(call, request={"arguments": changed})
        done = sample.replay(calls)
        assert done.outcome == "diverged" and done.stopped is not None
        path = "/arguments/added" if isinstance(arguments, dict) else "/arguments"
        assert (done.stopped["name"], done.stopped["path"]) == (call.name, path)


def test_with_one_answer_altered_the_replays_difference_names_the_place(some: list[Sample]) -> None:
    for sample in some:
        at = sample.calls // 2
        call = sample.run.calls[at]
        assert call.answer is not None
        body = {**call.answer.body, "content": "altered"}
        calls = list(sample.run.calls)
        calls[at] = replace(call, answer=replace(call.answer, body=body))
        altered = replace(sample.run, calls=sample.replay(calls).run.calls)
        texts = RULES.texts(sample.run, by_label=False)
        found = first_difference(sample.run, altered, texts)
        assert found is not None
        place = (found.step, found.name, found.side, found.path)
        assert place == (call.place.step, call.name, "answer", "/content")
        assert found.kind == "environment"


def test_the_lake_holds_masks_where_the_policy_asks_unmasked(
    shared: Path, tmp_path: Path, server: Provider
) -> None:
    """Else the tests above would show nothing."""
    found = samples(shared, tmp_path, "tau-bench", RUNS, server)
    masked = sum("[" in json.dumps(call.request) for s in found for call in s.run.calls)
    differing = sum(
        json.dumps(a.request) != json.dumps(b.request)
        for s in found
        for a, b in zip(s.raw.calls, s.run.calls, strict=True)
    )
    assert masked and differing


@pytest.mark.full
@pytest.mark.parametrize("name", list(SOURCES))
def test_every_recorded_run_is_reproduced(
    name: str, shared: Path, tmp_path: Path, server: Provider
) -> None:
    for sample in samples(shared, tmp_path, name, None, server):
        assert sample.replay().outcome == "same", sample.run.run_id
