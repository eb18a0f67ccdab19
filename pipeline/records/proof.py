"""Whether the open-run state can be read back: each document, down to the base it stands on."""

from collections.abc import Iterator

import pyarrow as pa

from pipeline.errors import LakeError, LogError
from pipeline.lake import layout
from pipeline.lake.history import partitions
from pipeline.lake.log import PartitionLog
from pipeline.lake.proof.findings import Finding
from pipeline.lake.store import Store
from pipeline.records.state import unpack
from pipeline.state.chain import read_chain
from pipeline.state.open_runs import OpenRuns


def check_states(store: Store) -> Iterator[Finding]:
    """A finding for each partition whose next slice could not be assembled."""
    for topic, partition in partitions(store):
        try:
            before = _committed(store, topic, partition)
            problem = _problem(store, topic, partition, before)
            if problem and before != _committed(store, topic, partition):
                problem = _problem(store, topic, partition, _committed(store, topic, partition))
        except LogError:
            continue  # the log itself is not whole, which is told by whoever reads it
        if problem:
            folder = layout.state_folder(topic, partition)
            yield Finding(topic, partition, code="state-bad", path=folder, detail=problem)


def _committed(store: Store, topic: str, partition: int) -> str | None:
    last = PartitionLog(store, topic, partition).position().last_commit
    return last.state_digest if last else None


def _problem(store: Store, topic: str, partition: int, digest: str | None) -> str:
    """What is wrong with the state, in a word; empty if nothing is."""
    try:
        for entry in OpenRuns(read_chain(store, topic, partition, digest)).oldest():
            if entry.payload is not None:
                unpack(entry.payload)
    except (LakeError, LogError) as error:
        return error.code
    except (ValueError, TypeError, pa.ArrowException):
        return "state-unreadable"
    return ""
