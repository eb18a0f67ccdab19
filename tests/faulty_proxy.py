"""An HTTP proxy that fails as object stores do, by a seeded plan: before or after the request took
effect, by asking to slow down, or by cutting an upload short."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Fault = Literal["refused", "lost answer", "slow down", "truncated"]
FAULTS: tuple[Fault, ...] = ("refused", "lost answer", "slow down", "truncated")
_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


class Plan:
    """Which request fails and how: `rate` of those whose method is in `methods`."""

    def __init__(self, seed: int, rate: float, methods: frozenset[str]) -> None:
        self._random, self._rate, self._methods = random.Random(seed), rate, methods
        self._lock = threading.Lock()
        self.done: Counter[Fault] = Counter()

    def next(self, method: str) -> Fault | None:
        with self._lock:
            if method not in self._methods or self._random.random() >= self._rate:
                return None
            fault = self._random.choice(FAULTS)
            self.done[fault] += 1
            return fault


@contextmanager
def faulty_proxy(port: int, plan: Plan) -> Iterator[int]:
    """Forwards to `port` on the loopback; gives the port to ask instead."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            fault = plan.next(self.command)
            if fault == "refused":
                self._answer(500, {}, b"")
            elif fault == "slow down":
                self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            elif fault == "truncated":
                self.close_connection = True
                _forward_half(port, self.command, self.path, dict(self.headers), body)
            else:
                status, headers, data = _forward(
                    port, self.command, self.path, dict(self.headers), body
                )
                if fault == "lost answer":
                    self._answer(500, {}, b"")
                else:
                    self._answer(status, headers, data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815

        def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            length = headers.get("Content-Length") if self.command == "HEAD" else None
            if length is None:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _forward(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        kept = {n: v for n, v in answer.getheaders() if n.lower() not in _HOP}
        if method == "HEAD" and (length := answer.getheader("content-length")):
            kept["Content-Length"] = length
        return answer.status, kept, data
    finally:
        connection.close()


def _forward_half(port: int, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
    """Sends the head and half of the body, then hangs up."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(body[: len(body) // 2])
    connection.close()
