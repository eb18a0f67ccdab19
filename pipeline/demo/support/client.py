"""The agent's services, over HTTP: order desk, carrier, mail, model."""

import http.client
import json
import os
import signal
from typing import Any, Final

ADDRESS: Final = "REDACTORY_EXAMPLE_SERVICES"
"""Environment variable: host:port of the example's services."""


class ServiceError(Exception):
    """A service refused; the text is the service's own."""


class Client:
    """Calls the services at an address; connects with the first call.

    `dies_after` names a tool after which this process kills itself: it has run, and nobody knows.
    """

    def __init__(self, address: str, dies_after: str | None = None) -> None:
        self._address, self._dies_after = address, dies_after
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def of_environment(cls) -> "Client":
        """The services that the environment names; none in a replay, which calls none."""
        return _CLIENTS.setdefault("", cls(os.environ.get(ADDRESS, "")))

    @classmethod
    def use(cls, client: "Client") -> None:
        """Lets the agents of this process use another client."""
        _CLIENTS[""] = client

    def ask_model(self, request: Any) -> Any:
        """One call of the model."""
        return self.post("/model", request)

    def look_up(self, tool: str, arguments: Any) -> Any:
        """One call of a tool; raises ServiceError."""
        found = self.post(f"/tools/{tool}", arguments)
        self._die_after(tool)
        return found

    def send_email(self, arguments: Any, key: str) -> Any:
        """Sends one e-mail under an idempotency key."""
        sent = self.post("/mail", arguments, {"Idempotency-Key": key})
        self._die_after("send_email")
        return sent

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Any:
        """One request to the services; raises ServiceError."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._address, timeout=30)
        self._connection.request("POST", path, json.dumps(body), headers or {})
        response = self._connection.getresponse()
        given = json.loads(response.read())
        if response.status != 200:
            raise ServiceError(given["error"])
        return given

    def _die_after(self, tool: str) -> None:
        if tool == self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)


_CLIENTS: Final[dict[str, Client]] = {}
