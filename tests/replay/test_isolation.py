"""A replay is kept from the world by the kernel; the audit hook alone must be accepted."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replay_samples import KEYS, NOW_US, RULES, RULESET, record
from running import redactory

from pipeline.emitter import MatchingPolicy, World
from pipeline.errors import PipelineError, UsageError
from pipeline.replay.batch import Batch, Setting, check_probe
from pipeline.replay.isolation import AUDIT_HOOK
from pipeline.replay.record import RecordedRun
from pipeline.replay.session import Replayed, Rules
from redactors import Ruleset

HERE = Path(__file__).parent

REACHES = (
    *("opens_a_socket", "uses_urllib", "uses_httpx", "uses_requests", "starts_a_program"),
    *("forks", "writes_outside", "removes_outside"),
)


class Listener:
    """A server that counts who connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def ticking(task: Any = None) -> RecordedRun:
    def agent(world: World, task: Any) -> Any:
        return world.tool("tick", {}, lambda asked: "tock")

    return record(agent, task)


def batch(name: str, *, use_kernel: bool = True, accept: bool = False, **more: Any) -> Batch:
    setting = Setting((HERE,), (), use_kernel, accept)
    return Batch(f"agents:{name}", RULES, MatchingPolicy(), NOW_US, setting, **more)


@pytest.fixture(scope="module")
def closed() -> Iterator[Batch]:
    """One isolated process for the whole module; the task names the agent."""
    with batch("chosen") as opened:
        yield opened


@pytest.fixture(scope="module")
def hooked() -> Iterator[Batch]:
    """The same with the audit hook alone."""
    with batch("chosen", use_kernel=False, accept=True) as opened:
        yield opened


def play(opened: Batch, name: str, **task: Any) -> Replayed:
    return opened.recorded(ticking({"agent": name, **task}))


def test_the_kernel_denies_all_three_where_it_can(closed: Batch) -> None:
    assert closed.protection is not None
    assert closed.protection.is_whole, "this machine has neither seccomp nor Landlock"
    assert play(closed, "tick").outcome == "same"


@pytest.mark.parametrize("way", ["closed", "hooked"])
def test_whatever_reaches_past_the_boundary_is_denied_and_stops_the_run(
    way: str, listener: Listener, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    opened = request.getfixturevalue(way)
    before = listener.connections
    outside = tmp_path / "there.txt"
    outside.write_text("there")
    for name in REACHES:
        target = outside if name == "removes_outside" else tmp_path / "new.txt"
        done = play(opened, name, port=listener.port, outside=str(target))
        assert (name, done.outcome) == (name, "denied")
        assert done.stopped is not None and done.stopped["step"] == 0
    assert outside.read_text() == "there" and not (tmp_path / "new.txt").exists()
    assert listener.connections == before
    socket.create_connection(("127.0.0.1", listener.port)).close()
    _until(lambda: listener.connections == before + 1)


def test_a_scratch_directory_is_the_agents_own(closed: Batch) -> None:
    done = play(closed, "writes_inside")
    assert (done.outcome, done.returned) == ("same", ["tock", "mine"])


def test_an_agent_that_awaits_has_its_event_loop() -> None:
    with batch("waits") as opened:
        assert opened.recorded(ticking()).returned == "tock"


def test_one_process_serves_a_batch_and_a_missing_fixture_stops_each(closed: Batch) -> None:
    done = [play(closed, "calls_live") for _ in range(3)]
    assert [each.outcome for each in done] == ["missing"] * 3


def test_a_probe_that_was_not_stopped_stops_the_batch() -> None:
    check_probe({"missing_fixture": True, "sockets": True})
    for probe in ({"missing_fixture": False, "sockets": True}, {}):
        with pytest.raises(PipelineError) as caught:
            check_probe(probe)
        assert caught.value.code == "probe"


def test_the_audit_hook_alone_must_be_accepted() -> None:
    with pytest.raises(PipelineError) as caught, batch("tick", use_kernel=False):
        pass
    assert (caught.value.code, caught.value.exit_code) == ("audit-hook", 3)


def test_what_the_audit_hook_alone_protects_says_so(hooked: Batch) -> None:
    assert hooked.protection is not None and hooked.protection.sockets == AUDIT_HOOK


def test_rules_that_were_never_compiled_here_are_before_anything_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rules = Rules(Ruleset(name="few", version="1", rules=RULESET.rules[:1]), KEYS)
    with Batch("agents:tick", rules, MatchingPolicy(), NOW_US, Setting((HERE,))) as opened:
        assert opened.recorded(ticking()).outcome == "same"
    assert list(tmp_path.rglob("*.hs"))


def test_an_archive_in_sight_of_the_agent_is_refused(tmp_path: Path) -> None:
    setting = Setting((HERE, tmp_path), (tmp_path / "lake",))
    with (
        pytest.raises(UsageError, match="where the agent's code may read"),
        Batch("agents:tick", RULES, MatchingPolicy(), NOW_US, setting),
    ):
        pass


def test_an_agent_that_does_not_exist_is_named() -> None:
    with pytest.raises(PipelineError, match="ended before its time"), batch("nobody") as opened:
        opened.recorded(ticking())
    assert redactory("replay", "run", "--agent", "agents:tick").returncode == 2


def _until(holds: Any) -> None:
    end_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.01)
