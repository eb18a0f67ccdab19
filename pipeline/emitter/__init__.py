"""The light client that agents import: neither Beam nor pyarrow."""

from pipeline.emitter.client import Emitter
from pipeline.emitter.ids import id_source, system_clock, uuid7
from pipeline.emitter.recorder import RunRecorder

__all__ = ["Emitter", "RunRecorder", "id_source", "system_clock", "uuid7"]
