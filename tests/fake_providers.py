"""A local server that speaks as two providers of models do, streaming included, and counts."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECES = ("The parcel of jane", ".doe@exam", "ple.com is held.")
TEXT = "".join(PIECES)
"""An address that no piece of the stream holds whole."""


class Provider(ThreadingHTTPServer):
    """The server; `paths` are those that were asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def provider() -> Iterator[Provider]:
    """A running provider."""
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        assert isinstance(self.server, Provider)
        self.server.paths.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/fails"):
            self._send(503, {"error": {"message": "busy"}})
        elif self.path.endswith("/chat/completions"):
            self._stream(_chat_chunks()) if body.get("stream") else self._send(200, _chat())
        elif self.path.endswith("/messages"):
            self._stream(_message_events()) if body.get("stream") else self._send(200, _message())
        else:
            self._send(200, {"echo": body})

    def do_GET(self) -> None:
        assert isinstance(self.server, Provider)
        self.server.paths.append(self.path)
        data = bytes(range(256))
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, pieces: Iterator[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece.encode())
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def _chat() -> Any:
    message = {"role": "assistant", "content": TEXT}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "fake-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }


def _chat_chunks() -> Iterator[str]:
    deltas: list[Any] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in PIECES]
    deltas.append({})
    for number, delta in enumerate(deltas):
        reason = "stop" if number == len(deltas) - 1 else None
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": "fake-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def _message() -> Any:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake-1",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }


def _message_events() -> Iterator[str]:
    start = {**_message(), "content": [], "stop_reason": None}
    events: list[Any] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ]
    for piece in PIECES:
        delta = {"type": "text_delta", "text": piece}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events += [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
