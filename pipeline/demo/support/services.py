"""The services of the example, in a process of their own on the loopback interface.

An order desk; a carrier whose answer has often moved on by the next call, and whose first answer is
a failure at times that repeats a signing key; a mail sink, which honours idempotency keys or does
not; the simulated model.  They count what is asked of them.
"""

import json
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from random import Random
from threading import Lock
from typing import Any, Final

from pipeline.demo.support.client import Client, ServiceError
from pipeline.demo.support.model import answer
from pipeline.demo_agent.cast import Case, case

FIRST_DAY: Final = date(2026, 3, 2)
DAYS_AHEAD: Final = 40
"""From the last scan to the expected day: a scan never falls on a day that was expected."""


@dataclass(frozen=True, slots=True)
class Probabilities:
    """All that may be set; every figure follows from running the example.

    `drift`: the carrier's answer has moved on by its next call.  `wrong_v1`, `wrong_v2`: the model
    takes the wrong date under prompt v1, or under one that says which date is which.
    """

    drift: float = 0.82
    wrong_v1: float = 0.53
    wrong_v2: float = 0.16


@dataclass(slots=True)
class Desk:
    """What the services know and have counted; cases are drawn from `seed` as they are needed."""

    seed: int
    chances: Probabilities
    honours_keys: bool
    counts: Counter[str] = field(default_factory=Counter)
    mails: list[dict[str, Any]] = field(default_factory=list)
    _cases: dict[str, tuple[int, Case]] = field(default_factory=dict)
    _asked: Counter[str] = field(default_factory=Counter)
    _moved: Counter[str] = field(default_factory=Counter)
    _sent: dict[str, Any] = field(default_factory=dict)

    def task(self, index: int) -> dict[str, Any]:
        """The ticket of a number."""
        about = case(Random(f"{self.seed}/{index}"))
        self._cases[about.order_id] = self._cases[about.tracking_id] = index, about
        return {
            "letter": about.letter(),
            "from": about.customer.email,
            "order_id": about.order_id,
            "seed": self.seed * 100_000 + index,
            "mail_honours_keys": self.honours_keys,
        }

    def get_order(self, arguments: Mapping[str, Any]) -> Any:
        """The order, with its customer."""
        return self._cases[arguments["order_id"]][1].order()

    def carrier_status(self, arguments: Mapping[str, Any]) -> Any:
        """Where the parcel is; raises ServiceError at times."""
        parcel = arguments["tracking_id"]
        index, about = self._cases[parcel]
        self._asked[parcel] += 1
        number = self._asked[parcel]
        if number == 1 and index % 3 == 0:
            raise ServiceError(about.carrier_failure())
        if number > 1 + (index % 3 == 0):
            moved = Random(f"{self.seed}/{parcel}/{number}").random() < self.chances.drift
            self._moved[parcel] += moved
        seen = FIRST_DAY + timedelta(days=self._moved[parcel])
        return {
            "tracking_id": parcel,
            "state": "held" if index % 4 == 1 else "on its way",
            "depot": "Marlow",
            "last_scan": seen.isoformat(),
            "expected": (seen + timedelta(days=DAYS_AHEAD)).isoformat(),
        }

    def depot_hours(self, arguments: Mapping[str, Any]) -> Any:
        """When a depot is open."""
        return {"depot": arguments["depot"], "hours": "8 to 18"}

    def mail(self, arguments: Mapping[str, Any], key: str) -> Any:
        """Takes an e-mail; a second under a key it honours is the first."""
        if self.honours_keys and key in self._sent:
            return self._sent[key]
        self.mails.append(dict(arguments))
        self._sent[key] = {"queued": True, "number": len(self.mails)}
        return self._sent[key]

    def model(self, request: Mapping[str, Any]) -> Any:
        """The simulated model."""
        wrong = {"v1": self.chances.wrong_v1, "v2": self.chances.wrong_v2}
        return answer(request, wrong | {"v3": self.chances.wrong_v2})

    def seen(self) -> Any:
        """What was counted and sent."""
        return {"counts": dict(self.counts), "mails": self.mails}


class Services:
    """The running services, for those who arrange tasks and look at what was sent."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = Client(address)

    def reset(self, seed: int, *, honours_keys: bool) -> None:
        """Starts anew: no mails, no counts, a carrier that was never asked."""
        self._client.post("/reset", {"seed": seed, "honours_keys": honours_keys})

    def task(self, index: int) -> dict[str, Any]:
        """The ticket of a number."""
        task: dict[str, Any] = self._client.post("/task", {"index": index})
        return task

    def seen(self) -> dict[str, Any]:
        """`counts` of calls by path, `mails` as they arrived."""
        seen: dict[str, Any] = self._client.post("/seen", {})
        return seen


@contextmanager
def running(chances: Probabilities, seed: int) -> Iterator[Services]:
    """Starts the services, and ends them."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, asdict(chances), seed), daemon=True)
    process.start()
    try:
        yield Services(f"127.0.0.1:{ours.recv()}")
    finally:
        process.terminate()
        process.join()


class _Server(ThreadingHTTPServer):
    """Serves one desk at a time, one request at a time."""

    daemon_threads = True

    def __init__(self, desk: Desk) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._desk, self._lock = desk, Lock()

    def asked(self, path: str, body: Any, key: str) -> tuple[int, Any]:
        """The status and the answer to a request."""
        with self._lock:
            match path:
                case "/reset":
                    chances = self._desk.chances
                    self._desk = Desk(body["seed"], chances, body["honours_keys"])
                    return 200, {}
                case "/task":
                    return 200, self._desk.task(body["index"])
                case "/seen":
                    return 200, self._desk.seen()
            return _served(self._desk, path, body, key)


def _served(desk: Desk, path: str, body: Any, key: str) -> tuple[int, Any]:
    desk.counts[path] += 1
    try:
        match path:
            case "/model":
                return 200, desk.model(body)
            case "/mail":
                return 200, desk.mail(body, key)
        return 200, getattr(desk, path.removeprefix("/tools/"))(body)
    except ServiceError as error:
        return 503, {"error": str(error)}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, given = self.server.asked(self.path, body, self.headers["Idempotency-Key"] or "")
        data = json.dumps(given).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing."""


def _serve(told: Connection, chances: Mapping[str, float], seed: int) -> None:
    server = _Server(Desk(seed, Probabilities(**chances), honours_keys=True))
    told.send(server.server_port)
    server.serve_forever()
