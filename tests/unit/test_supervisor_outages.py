"""What a supervisor does when what a worker needs is away: it waits as long as that takes."""

import subprocess
import sys

import pytest

from pipeline.config import IngestConfig
from pipeline.errors import IngestError
from pipeline.supervisor import MAX_FAILURES, Supervisor, _Worker


def _failed(supervisor: Supervisor, code: str) -> None:
    """A worker ends with this error once more than often enough."""
    config = IngestConfig("", "", "")
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], text=True)
    error = {"code": code, "message": "it is away", "hint": "", "final": False}
    supervisor._workers[0] = worker = _Worker(config, process, MAX_FAILURES, error)
    supervisor._ended(0, worker)


@pytest.fixture
def supervisor() -> Supervisor:
    """One that starts no worker again, since it is asked to end."""
    made = Supervisor(IngestConfig("", "", ""), 1, lambda report: None)
    made.request_stop()
    return made


@pytest.mark.parametrize("code", ["broker-away", "registry-away"])
def test_an_outage_is_waited_for_and_told(supervisor: Supervisor, code: str) -> None:
    _failed(supervisor, code)
    assert supervisor.report.waiting == "worker 0 to start again (it is away)"


@pytest.mark.parametrize("code", ["registry-login", "registry-missing", "worker-died"])
def test_what_does_not_end_by_itself_is_given_up(supervisor: Supervisor, code: str) -> None:
    with pytest.raises(IngestError):
        _failed(supervisor, code)
