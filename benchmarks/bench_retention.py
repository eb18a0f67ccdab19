"""What retention costs: a plan over many buckets, a sweep in lakes of every size, sealing.

    python benchmarks/bench_retention.py [--buckets 100000] [--slices 20]

The lakes are made without a broker: every bucket has one file of ten rows (a hard link to the same
bytes), four classes, a bucket an hour.  A sweep removes as many buckets from a small lake as from a
large one; it writes receipts and tombstones and flushes them as it always does.  Sealing is what
the same slices cost to write and commit with their content encrypted and its keys kept.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import pyarrow as pa

from pipeline.lake.commits import SliceCommitter
from pipeline.lake.entries import Commit, FileEntry, Intent, digest, encode
from pipeline.lake.keystore import ENVIRONMENT
from pipeline.lake.layout import Bucket, DataFile, new_claim
from pipeline.lake.log import PartitionLog
from pipeline.lake.parquet import to_parquet
from pipeline.lake.sealing import SEALED
from pipeline.lake.store import Store
from pipeline.lake.writer import file_entry
from pipeline.retention.plan import BucketFacts, Facts, plan_retention
from pipeline.retention.policy import HOUR_US, bucket_name
from pipeline.retention.sweep import Sweeper, plan_lake
from pipeline.slices import MaskedSlice, Part, SliceHeader
from schemas.parquet import EVENTS

NOW_US = 1_790_000_000_000_000 // HOUR_US * HOUR_US
CLASSES = ("debug", "default", "legal", "support")
FILES_A_COMMIT = 1_000
SLICE = 2_000
EVENTS_KB = 1
DIGEST = "ab" * 32


class Clock:
    """Wall and CPU time of this process since it was made."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter(), time.process_time()

    def read(self) -> str:
        wall_s = time.perf_counter() - self._began_s[0]
        return f"{wall_s:.2f} s ({time.process_time() - self._began_s[1]:.2f} s of CPU)"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buckets", type=int, default=100_000)
    parser.add_argument("--slices", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ[ENVIRONMENT] = str(Path(folder) / "keys")
        plan_of_facts(options.buckets)
        for buckets in (1_000, 10_000, options.buckets):
            store = Store.open(Path(folder) / f"lake-{buckets}", create=True)
            make_lake(store, buckets)
            plan_and_sweep(store, buckets)
        sealing(Path(folder), options.slices)


def plan_of_facts(count: int) -> None:
    """The pure plan, with every bucket ended."""
    buckets = tuple(
        BucketFacts(each, 1, 0, 10_000, 10, 0, frozenset((f"run-{index}",)))
        for index, each in enumerate(named(count))
    )
    clock = Clock()
    plan = plan_retention(Facts(buckets), NOW_US + count * HOUR_US)
    took = clock.read()
    assert plan.rows == 10 * count and plan.runs == count
    print(f"plan of {count:,} buckets that have all ended, as found: {took}")


def named(count: int) -> list[Bucket]:
    """Buckets of all classes, one an hour from `NOW_US`."""
    return [
        Bucket(
            "events",
            CLASSES[index % len(CLASSES)],
            bucket_name(NOW_US + index // len(CLASSES) * HOUR_US),
        )
        for index in range(count)
    ]


def make_lake(store: Store, count: int) -> None:
    """A lake of so many buckets, by its log and its files."""
    data = to_parquet(events(0, 10))
    root = Path(store.location)
    sample = file_entry("", "events", 10, data)
    log, previous, buckets = PartitionLog(store, "runs", 0), "", named(count)
    for number, start in enumerate(range(0, count, FILES_A_COMMIT), start=1):
        chosen = buckets[start : start + FILES_A_COMMIT]
        files = [DataFile(bucket, "runs", 0, number) for bucket in chosen]
        for file in files:
            (root / file.key).parent.mkdir(parents=True, exist_ok=True)
        (root / files[0].key).write_bytes(data)
        for file in files[1:]:
            os.link(root / files[0].key, root / file.key)
        previous = commit(log, number, files, sample, previous)


def commit(
    log: PartitionLog, number: int, files: list[DataFile], sample: FileEntry, previous: str
) -> str:
    """One entry of the log; its digest."""
    about = ("runs", "topic-id", 0, number, 10 * number - 10, 10 * number, NOW_US)
    intent = Intent(*about, DIGEST, DIGEST, "k1", new_claim(), previous)
    log.intend(intent)
    size, sha256 = sample.size_bytes, sample.sha256
    entries = tuple(FileEntry(file.key, "events", 10, size, sha256) for file in files)
    done = Commit(*about, DIGEST, DIGEST, "k1", intent.claim, digest(encode(intent)), files=entries)
    log.commit(done)
    return digest(encode(done))


def plan_and_sweep(store: Store, count: int) -> None:
    """A plan and a sweep when 100 buckets have ended, then when 300 more have."""
    for due in (100, 300):
        now_us = int(store.get_or_none("_tmp/now") or NOW_US - HOUR_US)
        now_us += due // len(CLASSES) * HOUR_US
        store.put_tmp("_tmp/now", str(now_us).encode())
        clock = Clock()
        plan = plan_lake(store.location, now_us)
        planned, clock = clock.read(), Clock()
        receipt = Sweeper(store, new_claim(), "bench", partial(int, now_us)).sweep()
        swept = clock.read()
        assert receipt is not None and receipt.is_complete
        assert len(plan.buckets) == len(receipt.buckets) == due
        print(f"lake of {count:>7,} buckets, {due} have ended: plan {planned}, sweep {swept}")


def sealing(folder: Path, slices: int) -> None:
    """Slices written open and sealed in turn, so that what else the machine does falls on both."""
    cpu_s: dict[bool, list[float]] = {False: [], True: []}
    wall_s: dict[bool, list[float]] = {False: [], True: []}
    stores = {
        sealed: Store.open(folder / f"sealing-{sealed}", create=True) for sealed in (False, True)
    }
    for number in range(slices + 1):
        for sealed, store in stores.items():
            rows = events(number * SLICE, SLICE)
            if sealed:
                rows = rows.replace_schema_metadata({SEALED: b""})
            times = write(store, number, rows)
            if number:  # the first one of each loads what is loaded once
                cpu_s[sealed].append(times[0])
                wall_s[sealed].append(times[1])
    for what, seconds in (("CPU", cpu_s), ("wall", wall_s)):
        middle = {sealed: statistics.median(times) for sealed, times in seconds.items()}
        print(
            f"a slice of {SLICE:,} events of {EVENTS_KB} KB, {what} time: "
            f"open {1000 * middle[False]:.0f} ms, sealed {1000 * middle[True]:.0f} ms: "
            f"{middle[False] / middle[True] - 1:+.1%} throughput"
        )


def write(store: Store, number: int, rows: pa.Table) -> tuple[float, float]:
    """CPU and wall seconds of one slice, written and committed."""
    start = number * SLICE
    header = SliceHeader(
        "runs", "topic-id", 0, start, start + SLICE, NOW_US, DIGEST, DIGEST, "k1",
        {"events": SLICE},
    )  # fmt: skip
    part = Part("events", "default", bucket_name(NOW_US + 1000 * HOUR_US), rows)
    committer = SliceCommitter(store, new_claim(), lambda: NOW_US)
    began = time.process_time(), time.perf_counter()
    written = committer.write(MaskedSlice(header, (part,)))
    assert written is not None
    committer.commit(written)
    return time.process_time() - began[0], time.perf_counter() - began[1]


def events(start: int, count: int) -> pa.Table:
    """Events with bodies of text that compresses as text does, about 3 to 1."""
    dice = random.Random(start)
    words = [f"{dice.getrandbits(40):x}" for _ in range(200)]
    listed = [
        {
            "event_id": f"event-{offset}", "run_id": f"run-{offset // 20}", "attempt": 1,
            "sequence": offset % 20, "occurred_at": NOW_US, "kind": "message",
            "body": '{"text":"' + " ".join(dice.choices(words, k=90)) + '"}',
            "producer": {"name": "bench", "version": "1"}, "redactions": [], "ruleset": DIGEST,
            "key_id": "k1", "kafka_topic": "runs", "kafka_partition": 0, "kafka_offset": offset,
            "ingested_at": NOW_US, "deadline": NOW_US + 1000 * HOUR_US,
            "retention_from": "occurred_at",
        }
        for offset in range(start, start + count)
    ]  # fmt: skip
    return pa.Table.from_pylist(listed, schema=EVENTS)


if __name__ == "__main__":
    main()
