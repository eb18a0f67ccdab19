"""The light client that agents import: neither Beam nor pyarrow."""

from pipeline.emitter.boundary import AsyncWorld, World
from pipeline.emitter.calls import CallFailed
from pipeline.emitter.client import Emitter
from pipeline.emitter.ids import id_source, system_clock, uuid7
from pipeline.emitter.policy import MatchingPolicy
from pipeline.emitter.recorder import RunRecorder
from pipeline.emitter.run import Recording
from pipeline.emitter.shipping import Shipper
from pipeline.emitter.spool import Spool, SpoolFull

__all__ = [
    "AsyncWorld",
    "CallFailed",
    "Emitter",
    "MatchingPolicy",
    "Recording",
    "RunRecorder",
    "Shipper",
    "Spool",
    "SpoolFull",
    "World",
    "id_source",
    "system_clock",
    "uuid7",
]
