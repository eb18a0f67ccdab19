"""`ReadMasked`: the masked slices of a topic as a Beam source.

One split per worker over all its partitions, in one long bundle: Beam keeps a little state per
bundle for as long as a pipeline lives, so few bundles and a fresh pipeline now and then keep
memory flat.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import Coder, PickleCoder
from apache_beam.io.unbounded_source import (
    CheckpointMark,
    ReadFromUnboundedSource,
    UnboundedReader,
    UnboundedSource,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from pipeline.coders import MaskedSliceCoder
from pipeline.config import IngestConfig
from pipeline.opening import OpenReader, open_reader
from pipeline.slices import MaskedSlice
from pipeline.telling import telling_errors


class ReadMasked(beam.PTransform):  # type: ignore[misc]
    """Topic → `MaskedSlice`s, from where the lake's log ends."""

    def __init__(self, config: IngestConfig) -> None:
        super().__init__()
        self._config = config

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[MaskedSlice]:
        # A bundle that is cut begins its files again, and would pass over ever more of them.
        read_time_s = math.inf if self._config.files else 600.0
        return begin | ReadFromUnboundedSource(
            SliceSource(self._config),
            max_records_per_bundle=10**9,
            max_read_time_seconds=read_time_s,
        )


class SliceSource(UnboundedSource):  # type: ignore[misc]
    """The partitions of one worker; not split further."""

    def __init__(self, config: IngestConfig) -> None:
        self.config = config

    def split(
        self, desired_num_splits: int, options: Any | None = None
    ) -> Iterable[UnboundedSource]:
        return [self]

    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> "SliceReader":
        # The mark is ignored on purpose: the position is the lake's log (invariant 2).
        return SliceReader(self.config)

    def get_checkpoint_mark_coder(self) -> Coder:
        return PickleCoder()

    def default_output_coder(self) -> Coder:
        return MaskedSliceCoder()


class InTheLog(CheckpointMark):  # type: ignore[misc]
    """A mark that says nothing: where reading goes on stands in the lake's log."""


class SliceReader(UnboundedReader):  # type: ignore[misc]
    """Hands out slices one by one; `advance` waits for the next one or the end."""

    def __init__(self, config: IngestConfig) -> None:
        self._config = config
        self._reader: OpenReader | None = None
        self._slices: Iterator[MaskedSlice] = iter(())
        self._current: MaskedSlice | None = None

    def start(self) -> bool:
        with telling_errors():
            self._reader = open_reader(self._config)
        self._slices = iter(self._reader.slices)
        return self.advance()

    def advance(self) -> bool:
        with telling_errors():
            self._current = next(self._slices, None)
        return self._current is not None

    def get_current(self) -> MaskedSlice:
        assert self._current is not None
        return self._current

    def get_current_timestamp(self) -> Timestamp:
        return Timestamp(micros=self.get_current().header.now_us)

    def get_watermark(self) -> Timestamp:
        return MAX_TIMESTAMP if self._current is None else self.get_current_timestamp()

    def get_checkpoint_mark(self) -> CheckpointMark:
        return InTheLog()

    def close(self) -> None:
        if self._reader:
            self._reader.close()
