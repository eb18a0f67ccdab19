"""A pytest plug-in: recorded runs are test cases in a suite of one's own.

    @pytest.mark.recorded_runs("runs.bundle", agent="my_agent:agent")
    def test_the_agent_still_does_what_it_did(replayed):
        assert replayed.outcome == "same", replayed.stopped

Each run of the bundle (or of any file that `redactory emit` reads) becomes a case of its own, and
all of them are replayed by one isolated process.  With `provider="my_agent:answers"` and
`substitute=("model",)` the replay is hybrid.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pipeline.replay.replayer import Replayer
    from pipeline.replay.session import Replayed

MARK: Final = "recorded_runs"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    config.addinivalue_line("markers", f"{MARK}(file, agent=…): replays the runs in a file")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for each run."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None or "replayed" not in metafunc.fixturenames:
        return
    cases = _Cases.of(metafunc.config, mark, metafunc.definition.path.parent)
    runs = cases.run_ids
    metafunc.parametrize("replayed", [(cases, run) for run in runs], ids=runs, indirect=True)


@pytest.fixture
def replayed(request: pytest.FixtureRequest) -> "Iterator[Replayed]":
    """How the replay of this case's run went."""
    cases, run_id = request.param
    yield cases.replay(run_id)


class _Cases:
    """The runs of one mark, replayed together when the first of them is asked for."""

    def __init__(self, file: Path, here: Path, asked: dict[str, Any]) -> None:
        self._file, self._here, self._asked = file, here, asked
        self._done: dict[str, Replayed] = {}

    @classmethod
    def of(cls, config: pytest.Config, mark: pytest.Mark, here: Path) -> "_Cases":
        (file,) = mark.args
        known: dict[str, _Cases] = config.stash.setdefault(_KNOWN, {})
        return known.setdefault(repr((here, mark)), cls(here / file, here, dict(mark.kwargs)))

    @property
    def run_ids(self) -> list[str]:
        ids: list[str] = getattr(self._replayer().archive, "run_ids", [])
        return ids

    def replay(self, run_id: str) -> "Replayed":
        if not self._done:
            from pipeline.replay.using import Wanted, replay

            replayer, asked = self._replayer(), self._asked
            runs = [replayer.archive.run(each) for each in self.run_ids]
            mode = "hybrid" if asked.get("provider") else "recorded"
            wanted = Wanted(
                mode,
                asked["agent"],
                tuple(asked.get("substitute", ("model",))),
                asked.get("provider"),
            )
            result = replay(replayer, runs, wanted)
            self._done = {each.run_id: each for each in result.replayed}
        return self._done[run_id]

    def _replayer(self) -> "Replayer":
        from pipeline.replay.batch import Setting
        from pipeline.replay.opening import Source

        accept = bool(self._asked.get("accept_audit_hook", False))
        setting = Setting((self._here,), accept_audit_hook=accept)
        return Source(file=self._file, setting=setting, is_apart=False).replayer()


_KNOWN: Final = pytest.StashKey[dict[str, _Cases]]()
