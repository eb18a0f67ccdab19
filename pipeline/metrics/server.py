"""The port that a monitoring system asks: `/metrics`, `/healthz`, `/readyz`."""

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

from pipeline.errors import UsageError
from pipeline.metrics.exposition import registry
from pipeline.metrics.vitals import Vitals

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_ADDRESS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})")
_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")


def parse_address(text: str) -> tuple[str, int]:
    """(host, port) of "HOST:PORT", an IPv6 host in brackets; else `UsageError`."""
    found = _ADDRESS.fullmatch(text)
    if found and 0 < int(found[2]) < 65536:
        return found[1].strip("[]"), int(found[2])
    raise UsageError(
        "--metrics takes HOST:PORT",
        code="bad-address",
        hint="127.0.0.1:9464 is seen by this machine only, 0.0.0.0:9464 by all",
    )


@contextmanager
def serving(address: tuple[str, int], vitals: Vitals, say: Callable[[str], None]) -> Iterator[None]:
    """Answers on the address meanwhile; where that cannot be, it is said and nothing else."""
    try:
        server = _open(address, application(vitals))
    except OSError as error:
        host, port = address
        say(f"no metrics: {host}:{port} cannot be used ({error.strerror}); the ingest goes on")
        yield
        return
    with server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def application(vitals: Vitals) -> "WSGIApplication":
    """Answers to GET; 503 with a reason a line where the ingest is not as it should be."""
    metrics = make_wsgi_app(registry(vitals))

    def answer(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start)
            return found
        if path not in ("/healthz", "/readyz"):
            start("404 Not Found", [_TEXT])
            return [b"/metrics, /healthz, /readyz\n"]
        wrong = vitals.unhealthy() if path == "/healthz" else vitals.unready()
        start("503 Service Unavailable" if wrong else "200 OK", [_TEXT])
        return ["".join(f"{line}\n" for line in wrong or ("ok",)).encode()]

    return answer


class _Handler(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, *args: Any) -> None:
        """Says nothing: the ingest's own lines are read by people."""


class _Server(ThreadingWSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of who went away in the middle of an answer."""


def _open(address: tuple[str, int], app: "WSGIApplication") -> ThreadingWSGIServer:
    family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
    kind = type("Server", (_Server,), {"address_family": family})
    server: ThreadingWSGIServer = make_server(*address, app, kind, _Handler)
    return server
