"""HTTP of clients that know nothing of us: the real SDKs, against a local server."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from fake_providers import PIECES, TEXT, Provider, provider
from replay_samples import RULES, player, recording

from pipeline.emitter import AsyncWorld, World
from pipeline.emitter.sse import joined, parse_stream, render_stream
from pipeline.emitter.transport import AsyncRecordingTransport, RecordingTransport
from pipeline.replay import recorded_run
from pipeline.replay.session import Kept, Replayed, compared

MASKED = "[EMAIL:"
SECRET = "never-a-real-" + "key"


@pytest.fixture(scope="module")
def server() -> Iterator[Provider]:
    with provider() as running:
        yield running


def openai_of(world: World, url: str) -> openai.OpenAI:
    transport = RecordingTransport(world, httpx2.HTTPTransport())
    client = httpx2.Client(transport=transport)
    return openai.OpenAI(api_key=SECRET, base_url=f"{url}/v1", http_client=client)


def anthropic_of(world: World, url: str) -> anthropic.Anthropic:
    transport = RecordingTransport(world, httpx2.HTTPTransport())
    client = httpx2.Client(transport=transport)
    return anthropic.Anthropic(api_key=SECRET, base_url=url, http_client=client)


def chats(world: World, url: str) -> list[str]:
    """Each SDK, plain and streaming."""
    asked: Any = [{"role": "user", "content": "Where is the parcel of jane.doe@example.com?"}]
    chat = openai_of(world, url).chat.completions
    whole = chat.create(model="fake-1", messages=asked).choices[0].message.content
    stream = chat.create(model="fake-1", messages=asked, stream=True)
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    messages = anthropic_of(world, url).messages
    message = messages.create(model="fake-1", max_tokens=9, messages=asked)
    with messages.stream(model="fake-1", max_tokens=9, messages=asked) as told:
        streamed = "".join(told.text_stream)
    return [str(whole), "".join(pieces), message.content[0].text, streamed]  # type: ignore[union-attr]


def record(agent: Any, world: Any = World) -> Kept:
    kept = Kept()
    with recording().run(None, kept, run_id="run-1", world=world) as opened:
        agent(opened)
    return kept


def replay(kept: Kept, agent: Any) -> Replayed:
    run = recorded_run(kept.events)
    done = player().recorded(run, agent)
    return compared(run, done, RULES.texts(run, by_label=False))


def test_both_sdks_are_recorded_and_replayed_streams_included(server: Provider) -> None:
    seen: list[str] = []
    kept = record(lambda world: seen.extend(chats(world, server.url)))
    assert seen == [TEXT] * 4
    stored = repr(kept.events)
    assert "jane.doe" not in stored and "doe@exam" not in stored and SECRET not in stored
    kinds = [event.kind for event in kept.events if event.kind.startswith("model")]
    assert kinds == ["model.requested", "model.responded"] * 4
    asked = len(server.paths)
    done = replay(kept, lambda world, task: chats(world, server.url))
    assert (done.outcome, done.stopped, done.error) == ("same", None, "")
    assert len(set(done.returned)) == 1 and MASKED in done.returned[0]
    assert len(server.paths) == asked, "a replay has called the server"


def test_an_async_client_is_recorded_and_replayed(server: Provider) -> None:
    async def agent(world: AsyncWorld, task: Any = None) -> list[str]:
        transport = AsyncRecordingTransport(world, httpx2.AsyncHTTPTransport())
        client = httpx2.AsyncClient(transport=transport)
        sdk = openai.AsyncOpenAI(api_key=SECRET, base_url=f"{server.url}/v1", http_client=client)
        asked: Any = [{"role": "user", "content": "Where?"}]
        whole = await sdk.chat.completions.create(model="fake-1", messages=asked)
        stream = await sdk.chat.completions.create(model="fake-1", messages=asked, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return [str(whole.choices[0].message.content), "".join(pieces)]

    seen: list[str] = []

    def run(world: AsyncWorld) -> None:
        seen.extend(asyncio.run(agent(world)))

    kept = record(run, AsyncWorld)
    assert seen == [TEXT] * 2
    asked = len(server.paths)
    done = replay(kept, agent)
    assert done.outcome == "same" and MASKED in done.returned[1]
    assert len(server.paths) == asked


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_tools_are_recorded_with_their_failures_and_bytes(server: Provider, library: Any) -> None:
    def agent(world: World, task: Any = None) -> list[Any]:
        with library.Client(transport=RecordingTransport(world, library.HTTPTransport())) as client:
            found = client.post(f"{server.url}/look?for=me", json={"order": 1}).json()
            busy = client.post(f"{server.url}/fails", json={}).status_code
            size = len(client.get(f"{server.url}/picture").content)
            with pytest.raises(library.ConnectError):
                client.get("http://127.0.0.1:1/nobody")
        return [found, busy, size]

    seen: list[Any] = []
    kept = record(lambda world: seen.extend(agent(world)))
    assert seen == [{"echo": {"order": 1}}, 503, 256]
    asked = len(server.paths)
    done = replay(kept, agent)
    assert (done.outcome, done.error) == ("same", "")
    assert done.returned[:2] == seen[:2]
    assert len(server.paths) == asked


def test_a_request_that_differs_stops_the_client(server: Provider) -> None:
    def agent(world: World, task: Any = None, order: int = 1) -> None:
        client = httpx2.Client(transport=RecordingTransport(world, httpx2.HTTPTransport()))
        client.post(f"{server.url}/look", json={"order": order})

    kept = record(agent)
    asked = len(server.paths)
    done = replay(kept, lambda world, task: agent(world, task, 2))
    assert done.outcome == "diverged" and done.stopped is not None
    assert done.stopped["path"] == "/arguments/body/order"
    assert len(server.paths) == asked


def test_a_stream_reaches_its_client_piece_by_piece_and_the_record_whole() -> None:
    class Slow:
        """A stream that cannot end before its first piece was taken."""

        def __init__(self) -> None:
            self.taken = 0

        def handle_request(self, request: Any) -> Any:
            return httpx2.Response(
                200, headers={"content-type": "text/event-stream"}, content=self._pieces()
            )

        def _pieces(self) -> Iterator[bytes]:
            for number, piece in enumerate(PIECES):
                assert self.taken == number, "the stream was held back"
                yield f"data: {json.dumps({'delta': piece})}\n\n".encode()

    slow = Slow()

    def agent(world: World) -> None:
        client = httpx2.Client(transport=RecordingTransport(world, slow))
        with client.stream("POST", "http://model.example/say", json={}) as response:
            for _ in response.iter_bytes():
                slow.taken += 1

    kept = record(agent)
    answer = json.loads(kept.events[-2].body)["content"]["stream"]
    assert len(answer) == 1 and MASKED in answer[0]["data"]["delta"]


def test_pieces_are_joined_and_nothing_else() -> None:
    events = [
        {"event": None, "data": {"i": 0, "delta": {"text": "a"}}},
        {"event": None, "data": {"i": 1, "delta": {"text": "x"}}},
        {"event": None, "data": {"i": 0, "delta": {"text": "b"}}},
        {"event": None, "data": {"i": 0, "delta": {"role": "assistant"}}},
        {"event": "ping", "data": "x"},
        {"event": "ping", "data": "x"},
    ]
    kept = joined(events)
    assert kept[0]["data"]["delta"] == {"text": "ab"}
    assert kept[1:] == [events[1], *events[3:]]
    assert parse_stream(b"".join(render_stream(kept)).decode()) == kept
