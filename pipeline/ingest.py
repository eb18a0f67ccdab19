"""The main path: a Kafka topic becomes masked, declared, committed Parquet.

    read and mask → assemble → write → commit

Only masked slices leave the first step, and the lake's commit log, not the runner's state, says
what is done: any step may be run again, by anybody.
"""

from collections.abc import Iterator

import apache_beam as beam

from pipeline.assemble import Assembler
from pipeline.config import IngestConfig
from pipeline.lag import GroupOffsets
from pipeline.lake.commits import SliceCommitter, WrittenSlice, commit
from pipeline.lake.entries import Commit
from pipeline.lake.layout import new_claim
from pipeline.lake.store import Store
from pipeline.retention.topic import RawTopic, open_topic
from pipeline.slices import MaskedSlice
from pipeline.source import ReadMasked
from pipeline.telling import telling_errors


class IngestRuns(beam.PTransform):  # type: ignore[misc]
    """Topic → commits.  Each element out is a slice that is stored for good."""

    def __init__(self, config: IngestConfig) -> None:
        super().__init__()
        self._config = config

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Commit]:
        lake = self._config.lake
        return (
            begin
            | "ReadMasked" >> ReadMasked(self._config)
            | "Assemble" >> beam.ParDo(AssembleRuns(self._config)).with_output_types(MaskedSlice)
            | "WriteParquet" >> beam.ParDo(WriteParquet(lake)).with_output_types(WrittenSlice)
            | "Commit" >> beam.ParDo(CommitSlice(self._config)).with_output_types(Commit)
        )


class AssembleRuns(beam.DoFn):  # type: ignore[misc]
    """Folds events into run records; those of runs that have ended are handed on."""

    def __init__(self, config: IngestConfig) -> None:
        self._config = config

    def setup(self) -> None:
        self._assembler = Assembler(Store.open(self._config.lake), self._config.run_timeout_us)

    def process(self, element: MaskedSlice) -> Iterator[MaskedSlice]:
        with telling_errors():
            assembled = self._assembler.assemble(element)
        if assembled is not None:  # None: no offsets, and no time has run out
            yield assembled


class WriteParquet(beam.DoFn):  # type: ignore[misc]
    """Declares the intent, writes the slice's files and publishes them."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def setup(self) -> None:
        self._committer = SliceCommitter(Store.open(self._lake), new_claim())

    def process(self, element: MaskedSlice) -> Iterator[WrittenSlice]:
        with telling_errors():
            written = self._committer.write(element)
        if written is not None:  # None: the log has this slice already
            yield written


class CommitSlice(beam.DoFn):  # type: ignore[misc]
    """Writes the commit entry: from here on the slice is in the lake."""

    def __init__(self, config: IngestConfig) -> None:
        self._config = config

    def setup(self) -> None:
        self._store = Store.open(self._config.lake)
        self._offsets = GroupOffsets(self._config)
        self._topic: RawTopic | None = None
        if self._config.delete_consumed:
            with telling_errors():
                self._topic = open_topic(self._config)
                self._topic.delete_consumed(self._store)

    def process(self, element: WrittenSlice) -> Iterator[Commit]:
        with telling_errors():
            committed = commit(self._store, element)
            if self._topic is not None:
                self._topic.delete_before(committed.partition, committed.end)
        self._offsets.commit(committed.topic, committed.partition, committed.end)
        yield committed

    def teardown(self) -> None:
        self._offsets.close()
