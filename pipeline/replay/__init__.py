"""Run it again: four questions to a recorded run, each under an authority of its own."""

from pipeline.replay.authority import Authority, Grant
from pipeline.replay.record import RecordedRun, recorded_run
from pipeline.replay.replayer import Replayer
from pipeline.replay.resume import restart, resume
from pipeline.replay.session import Replayed

__all__ = [
    "Authority",
    "Grant",
    "RecordedRun",
    "Replayed",
    "Replayer",
    "recorded_run",
    "restart",
    "resume",
]
