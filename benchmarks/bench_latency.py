"""How long an event takes until it can be queried, at a steady load.

    python benchmarks/bench_latency.py [--rate 1000] [--seconds 60] [--flush-interval-s 2]
        [--out benchmarks/results]

A real broker, one `redactory ingest` with its worker.  Each event carries the time at which it was
sent; it can be queried once its slice's commit stands in the log.  The load runs from the start,
and events are counted once the ingest has committed and had time to catch up.  Prints the median
and the 99th percentile, and writes them to `latency.md`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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

WARM_S = 35.0
"""From the first commit on, until events count: what was sent while the ingest started is read."""

START_S = 120.0
"""An ingest that has committed nothing by then did not start."""


def main() -> None:
    """Runs the load, then looks at what was stored when."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--flush-interval-s", type=float, default=2.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        running = broker.start(home / "broker", broker.free_port(), print)
        try:
            ensure_topic(running.bootstrap, "latency", partitions=4)
            span_us = load(running.bootstrap, home, options)
            text = report(latencies(home / "lake", *span_us), options)
        finally:
            broker.stop(home / "broker")
    print(text)
    if options.out:
        options.out.mkdir(exist_ok=True)
        words = [word for word in sys.argv[1:] if word not in ("--out", str(options.out))]
        command = " ".join(["python benchmarks/bench_latency.py", *words])
        about = f"`{command}`, on {os.cpu_count()} cores shared with other work."
        (options.out / "latency.md").write_text(f"# Latency\n\n{about}\n\n```\n{text}\n```\n")


def load(bootstrap: str, home: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Sends events while an ingest runs; from when to when those count (epoch µs)."""
    lake = home / "lake"
    words = ["ingest", "--bootstrap", bootstrap, "--topic", "latency", "--lake", str(lake)]
    words += ["--keys", str(home / "keys.json")]
    words += ["--flush-interval-s", str(options.flush_interval_s)]
    command = [sys.executable, "-P", "-m", "pipeline", *words]
    ingest = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with Emitter(bootstrap, "latency") as emitter:
        load = steady(emitter, options.rate)
        starting = send(load, START_S, until=lambda: any(lake.glob("_log/latency/*/*.commit")))
        assert starting < START_S, "the ingest did not start"
        send(load, WARM_S)
        first_us = time.time() * 1e6
        send(load, options.seconds)
        last_us = time.time() * 1e6
    time.sleep(options.flush_interval_s + 5)
    ingest.terminate()
    assert ingest.wait(60) == 0, "the ingest did not end well"
    return first_us, last_us


def steady(emitter: Emitter, rate: int) -> Iterator[None]:
    """Sends so many events a second for as long as it is asked to go on."""
    started = time.monotonic()
    for sent, event in enumerate(events(10**9, 7, 0)):
        while sent >= (time.monotonic() - started) * rate:
            yield
            time.sleep(0.005)
        emitter.emit(replace(event, occurred_at=time.time_ns() // 1000))


def send(load: Iterator[None], seconds: float, until: Callable[[], bool] = lambda: False) -> float:
    """Goes on with the load for so long, or until something is true; returns for how long."""
    started = time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds and not until():
        next(load)
    return elapsed


def latencies(lake: Path, first_us: float, last_us: float) -> np.ndarray:
    """Seconds from an event's sending to its slice's commit, for those sent in a span of time."""
    opened = open_lake(lake)
    found = []
    for entry in opened.files["events"]:
        file = parse_data_file(entry.path)
        assert file is not None
        commit = lake / entry_key(file.topic, file.partition, file.number, "commit")
        rows = from_parquet(opened.store.get(entry.path), columns=["occurred_at"])
        sent_us = rows["occurred_at"].cast("int64").to_numpy()
        counted = sent_us[(sent_us >= first_us) & (sent_us < last_us)]
        found.append((commit.stat().st_mtime * 1e6 - counted) / 1e6)
    return np.concatenate(found)


def report(seconds: np.ndarray, options: argparse.Namespace) -> str:
    """The percentiles and what they should be."""
    median, last = np.percentile(seconds, [50, 99])
    return (
        f"{len(seconds):,} events at {options.rate:,} a second, flush interval "
        f"{options.flush_interval_s:g} s: p50 {median:.2f} s, p99 {last:.2f} s "
        f"(wanted: at most {options.flush_interval_s + 2:g} s)"
    )


if __name__ == "__main__":
    main()
