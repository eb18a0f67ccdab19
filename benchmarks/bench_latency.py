"""How long an event takes until it can be queried, at a steady load.

    python benchmarks/bench_latency.py [--rate 1000] [--seconds 60] [--flush-interval-s 2]

A real broker, one `redactory ingest` with its worker.  Each event carries the time at which it was
sent; it can be queried once its slice's commit stands in the log.  Prints the median and the 99th
percentile.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from events import events

from pipeline import broker
from pipeline.emitter import Emitter
from pipeline.kafka import ensure_topic
from pipeline.lake.layout import entry_key, parse_data_file
from pipeline.lake.live import open_lake
from pipeline.lake.parquet import from_parquet

WARM_S = 10.0
"""Events sent earlier than this are not counted: the ingest was still starting."""


def main() -> None:
    """Runs the load, then looks at what was stored when."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--flush-interval-s", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        running = broker.start(home / "broker", broker.free_port(), print)
        try:
            ensure_topic(running.bootstrap, "latency", partitions=4)
            started_us = load(running.bootstrap, home, options)
            report(latencies(home / "lake", started_us), options)
        finally:
            broker.stop(home / "broker")


def load(bootstrap: str, home: Path, options: argparse.Namespace) -> float:
    """Sends the events while an ingest runs; when the first one counted was sent (epoch µs)."""
    words = ["ingest", "--bootstrap", bootstrap, "--topic", "latency", "--lake", str(home / "lake")]
    words += ["--keys", str(home / "keys.json")]
    words += ["--flush-interval-s", str(options.flush_interval_s)]
    command = [sys.executable, "-P", "-m", "pipeline", *words]
    ingest = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sent, started = 0, time.monotonic()
    stream = events(10**9, 7, 0)
    with Emitter(bootstrap, "latency") as emitter:
        while (elapsed := time.monotonic() - started) < WARM_S + options.seconds:
            while sent < elapsed * options.rate:
                emitter.emit(replace(next(stream), occurred_at=time.time_ns() // 1000))
                sent += 1
            time.sleep(0.005)
        print(f"{sent:,} events in {elapsed:.0f} s")
    first_us = (time.time() - options.seconds) * 1e6
    time.sleep(options.flush_interval_s + 5)
    ingest.terminate()
    assert ingest.wait(60) == 0, "the ingest did not end well"
    return first_us


def latencies(lake: Path, first_us: float) -> np.ndarray:
    """Seconds from an event's sending to its slice's commit, for those sent from `first_us` on."""
    opened = open_lake(lake)
    found = []
    for entry in opened.files["events"]:
        file = parse_data_file(entry.path)
        assert file is not None
        commit = lake / entry_key(file.topic, file.partition, file.number, "commit")
        rows = from_parquet(opened.store.get(entry.path), columns=["occurred_at"])
        sent_us = rows["occurred_at"].cast("int64").to_numpy()
        found.append((commit.stat().st_mtime * 1e6 - sent_us[sent_us >= first_us]) / 1e6)
    return np.concatenate(found)


def report(seconds: np.ndarray, options: argparse.Namespace) -> None:
    """Prints the percentiles and what they should be."""
    median, last = np.percentile(seconds, [50, 99])
    bound = options.flush_interval_s + 2
    print(f"{len(seconds):,} events at {options.rate:,} a second, flush interval ", end="")
    print(f"{options.flush_interval_s:g} s: p50 {median:.2f} s, p99 {last:.2f} s", end="")
    print(f" (wanted: at most {bound:g} s)")


if __name__ == "__main__":
    main()
