"""The main path: a Kafka topic becomes masked, declared, committed Parquet.

    read and mask → (assemble) → write → commit

Only masked slices leave the first step, and the lake's commit log, not the runner's state, says
what is done: any step may be run again, by anybody.
"""

from collections.abc import Iterator

import apache_beam as beam

from pipeline.config import IngestConfig
from pipeline.lake.entries import CommitEntry
from pipeline.lake.layout import new_claim
from pipeline.lake.store import Store
from pipeline.lake.writer import SliceCommitter, WrittenSlice
from pipeline.slices import MaskedSlice
from pipeline.source import ReadMasked
from pipeline.telling import telling_errors


class IngestRuns(beam.PTransform):  # type: ignore[misc]
    """Topic → commits.  Each element out is a slice that is stored for good."""

    def __init__(self, config: IngestConfig) -> None:
        super().__init__()
        self._config = config

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[CommitEntry]:
        return (
            begin
            | "ReadMasked" >> ReadMasked(self._config)
            # Assemble: events will be folded into run records here.
            | "WriteParquet" >> beam.ParDo(WriteParquet(self._config.lake))
            | "Commit" >> beam.ParDo(Commit(self._config.lake))
        )


class WriteParquet(beam.DoFn):  # type: ignore[misc]
    """Declares the intent, writes the slice's files and publishes them."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def setup(self) -> None:
        self._store, self._claim = Store.open(self._lake), new_claim()
        self._committers: dict[int, SliceCommitter] = {}

    def process(self, element: MaskedSlice) -> Iterator[WrittenSlice]:
        topic, partition = element.header.topic, element.header.partition
        with telling_errors():
            if partition not in self._committers:
                self._committers[partition] = SliceCommitter(
                    self._store, topic, partition, self._claim
                )
            written = self._committers[partition].write(element)
        if written is not None:  # None: the log has this slice already
            yield written


class Commit(beam.DoFn):  # type: ignore[misc]
    """Writes the commit entry: from here on the slice is in the lake."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def setup(self) -> None:
        self._store = Store.open(self._lake)

    def process(self, element: WrittenSlice) -> Iterator[CommitEntry]:
        header = element.header
        with telling_errors():
            entry = SliceCommitter(
                self._store, header.topic, header.partition, element.claim
            ).commit(element)
        yield entry
