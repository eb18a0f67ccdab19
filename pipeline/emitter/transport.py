"""A transport for `httpx` and its successor `httpx2`: records and replays HTTP of clients that know
nothing of it.

    httpx.Client(transport=RecordingTransport(world, httpx.HTTPTransport()))

Calls of models are told by what they ask for, any other is a tool's call unless `route` says
otherwise.  Of headers only those are kept that the matching policy names; a stream reaches its
client as it comes, and the record once it has ended.
"""

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, Self

from pipeline.emitter.boundary import AsyncWorld, World
from pipeline.emitter.calls import Answer, Boundary, Call, failure
from pipeline.emitter.policy import Http
from pipeline.emitter.sse import parse_stream, render_stream

Route = Callable[[Any, Any], tuple[Boundary, str]]
"""From a request and its body to the boundary and name of its call."""

_STREAM: Final = "text/event-stream"
_ASKED: Final = ("messages", "input", "prompt", "contents")
_KEY: Final = "Idempotency-Key"
# Of the bytes on the wire: what is handed on is decoded.
_WIRE: Final = ("content-encoding", "content-length", "transfer-encoding")


def route(request: Any, body: Any) -> tuple[Boundary, str]:
    """A request that names a model and asks it something is a model's; the host names a tool."""
    fields = body if isinstance(body, dict) else {}
    if isinstance(fields.get("model"), str) and any(name in fields for name in _ASKED):
        return "model", fields["model"]
    return "tool", request.url.host


class _Recording:
    """What both transports share."""

    def __init__(
        self, world: World | AsyncWorld, inner: Any, *, http: Http | None = None, by: Route = route
    ) -> None:
        self._world, self._inner, self._http, self._route = world, inner, http or Http(), by

    def _begin(self, request: Any, content: bytes) -> tuple[Call, Answer | Call]:
        body = _body(content)
        boundary, name = self._route(request, body)
        asked = self._asked(request, body)
        if boundary == "model":
            asked = {"provider": request.url.host, "requested_model": name, **asked}
        else:
            asked = {"arguments": asked}
        call = self._world.call(boundary, name, asked)
        return call, self._world.mode.begin(call, None)

    def _asked(self, request: Any, body: Any) -> dict[str, Any]:
        url = request.url
        parts = {
            "scheme": url.scheme,
            "host": url.host,
            "port": url.port,
            "path": url.path,
            "query": url.query.decode(),
        }
        headers = {n: request.headers[n] for n in self._http.headers if n in request.headers}
        asked = {
            "method": request.method,
            "url": {name: parts[name] for name in self._http.url},
            "headers": headers,
        }
        return asked | ({"body": body} if self._http.body else {})

    def _made(self, request: Any, asked: Call, made: Call) -> Any:
        """The request to send: another where a resume has put raw values into it."""
        if made.key is not None:
            request.headers[_KEY] = made.key
        if made.request is asked.request:
            return request
        body = (made.request if made.boundary == "model" else made.request["arguments"])["body"]
        headers = {n: v for n, v in request.headers.items() if n.lower() not in _WIRE}
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        return type(request)(request.method, request.url, headers=headers, content=content)

    def _end(self, call: Call, response: Any, content: bytes, *, is_whole: bool = True) -> None:
        told: dict[str, Any] = {
            "status_code": response.status_code,
            "headers": {"content-type": response.headers.get("content-type", "")},
        }
        if not is_whole:
            told["is_cut"] = True
        if told["headers"]["content-type"].startswith(_STREAM):
            told["stream"] = parse_stream(content.decode("utf-8", "replace"))
        else:
            told["body"] = _body(content)
        self._world.mode.end(call, _answer(call, told))

    def _replayed(self, request: Any, call: Call, answer: Answer) -> tuple[Any, Mapping[str, Any]]:
        """The library, and what was recorded; raises what the client would have seen."""
        library = import_module(type(request).__module__.partition(".")[0])
        if not answer.is_ok:
            failed = answer.error(call)
            known = getattr(library, failed.type, None)
            if isinstance(known, type) and issubclass(known, Exception):
                raise known(failed.message)
            raise failed
        told: Mapping[str, Any] = answer.value(call)
        return library, told


class RecordingTransport(_Recording):
    """For `httpx.Client`; `inner` makes the calls that are live."""

    def handle_request(self, request: Any) -> Any:
        """One request, as the library asks for it."""
        call, begun = self._begin(request, request.read())
        if isinstance(begun, Answer):
            library, told = self._replayed(request, call, begun)
            if "stream" in told:
                return _response(library, told, iter(list(render_stream(told["stream"]))))
            return _response(library, told, _bytes(told["body"]))
        try:
            response = self._inner.handle_request(self._made(request, call, begun))
            if response.headers.get("content-type", "").startswith(_STREAM):
                return _live(response, self._tee(begun, response))
            content = response.read()
        except Exception as error:
            self._world.mode.end(begun, failure(error))
            raise
        self._end(begun, response, content)
        return _live(response, content)

    def _tee(self, call: Call, response: Any) -> Iterator[bytes]:
        pieces: list[bytes] = []
        is_whole = False
        try:
            for piece in response.iter_bytes():
                pieces.append(piece)
                yield piece
            is_whole = True
        finally:
            response.close()
            self._end(call, response, b"".join(pieces), is_whole=is_whole)

    def close(self) -> None:
        """Closes the inner transport."""
        if self._inner is not None:
            self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRecordingTransport(_Recording):
    """For `httpx.AsyncClient`."""

    async def handle_async_request(self, request: Any) -> Any:
        """One request, as the library asks for it."""
        call, begun = self._begin(request, await request.aread())
        if isinstance(begun, Answer):
            library, told = self._replayed(request, call, begun)
            if "stream" in told:
                return _response(library, told, _later(list(render_stream(told["stream"]))))
            return _response(library, told, _bytes(told["body"]))
        try:
            response = await self._inner.handle_async_request(self._made(request, call, begun))
            if response.headers.get("content-type", "").startswith(_STREAM):
                return _live(response, self._tee(begun, response))
            content = await response.aread()
        except Exception as error:
            self._world.mode.end(begun, failure(error))
            raise
        self._end(begun, response, content)
        return _live(response, content)

    async def _tee(self, call: Call, response: Any) -> AsyncIterator[bytes]:
        pieces: list[bytes] = []
        is_whole = False
        try:
            async for piece in response.aiter_bytes():
                pieces.append(piece)
                yield piece
            is_whole = True
        finally:
            await response.aclose()
            self._end(call, response, b"".join(pieces), is_whole=is_whole)

    async def aclose(self) -> None:
        """Closes the inner transport."""
        if self._inner is not None:
            await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _later(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _body(content: bytes) -> Any:
    """JSON as its value, a text as itself, anything else in base64."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _bytes(body: Any) -> bytes:
    match body:
        case str():
            return body.encode()
        case {"base64": str(text)} if len(body) == 1:
            return base64.b64decode(text)
    return json.dumps(body, ensure_ascii=False).encode()


def _answer(call: Call, told: Mapping[str, Any]) -> Answer:
    if call.boundary != "model":
        return Answer({"content": told, "status": "ok"})
    body = told.get("body")
    named = {"returned_model": body["model"]} if isinstance(body, dict) and "model" in body else {}
    return Answer({**named, **told})


def _response(library: Any, told: Mapping[str, Any], content: Any) -> Any:
    return library.Response(told["status_code"], headers=dict(told["headers"]), content=content)


def _live(response: Any, content: Any) -> Any:
    headers = [(n, v) for n, v in response.headers.multi_items() if n.lower() not in _WIRE]
    return type(response)(response.status_code, headers=headers, content=content)
