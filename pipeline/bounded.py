"""The main path on a runner that reads no unbounded source (Dask): a bounded run.

An element is a topic partition with the offset to read up to.  One DoFn takes the steps of the main
path from the log's position to there, and yields the commits as receipts: nothing unfinished is
handed from one worker to another, and what is executed again finds its slices in the log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipeline.config import IngestConfig
from pipeline.errors import UsageError
from pipeline.ingest import AssembleRuns, CommitSlice, WriteParquet
from pipeline.lake.entries import Commit
from pipeline.lake.log import PartitionLog
from pipeline.lake.store import Store
from pipeline.opening import open_reader, partition_ends
from pipeline.slices import MaskedSlice
from pipeline.telling import tell_commit, telling_errors

DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"
RUNNERS = ("DaskRunner", DASK)


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """A partition of the topic's `partitions`, to be read up to offset `end`."""

    partition: int
    partitions: int
    end: int


def is_bounded(options: PipelineOptions) -> bool:
    """Whether the runner that the options name needs a bounded run."""
    return options.view_as(StandardOptions).runner in RUNNERS


def run_bounded(config: IngestConfig, options: PipelineOptions) -> None:
    """Reads what stands in the topic now, then tells the commits: workers may be far away."""
    if not config.until_caught_up:
        raise UsageError(
            "this runner reads bounded runs only",
            code="bounded-only",
            hint="add --until-caught-up, and run it again for what comes later",
        )
    if config.files:
        raise UsageError(
            "this runner reads topics only",
            code="topics-only",
            hint="leave the runner out: files are read by --workers processes of this machine",
        )
    ends = partition_ends(config)
    store = Store.open(config.lake)
    logs = [PartitionLog(store, config.topic, partition) for partition in ends]
    first = [log.position().next_number for log in logs]
    ranges = [PartitionRange(p, max(ends) + 1, end) for p, end in ends.items()]
    with beam.Pipeline(DASK, options=options) as pipeline:  # Beam does not know the short name
        _ = (
            pipeline
            | beam.Create(ranges)
            | "Ingest" >> beam.ParDo(IngestPartition(config)).with_output_types(Commit)
        )
    for log, number in zip(logs, first, strict=True):
        for each in range(number, log.position().next_number):
            tell_commit(log.commit_at(each)[0])


class IngestPartition(beam.DoFn):  # type: ignore[misc]
    """Read → mask → assemble → write → commit, slice after slice, for one partition."""

    def __init__(self, config: IngestConfig) -> None:
        self._config = config

    def process(self, element: PartitionRange) -> Iterator[Commit]:
        config = replace(self._config, instance=element.partition, instances=element.partitions)
        assemble, write = AssembleRuns(config), WriteParquet(config.lake)
        commit = CommitSlice(config)
        for step in (assemble, write, commit):
            step.setup()
        with telling_errors():
            reader = open_reader(config)
        try:
            for masked in _telling(reader.slices):
                for assembled in assemble.process(masked):
                    for written in write.process(assembled):
                        yield from commit.process(written)
                if masked.header.end >= element.end:
                    return
        finally:
            reader.close()
            commit.teardown()


def _telling(slices: Iterable[MaskedSlice]) -> Iterator[MaskedSlice]:
    with telling_errors():
        yield from slices
