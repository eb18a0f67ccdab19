"""Whether an ingest keeps its memory and its file handles over many minutes of steady load.

    python benchmarks/bench_soak.py [--minutes 10] [--rate 300] [--plot FILE.png]

A real broker, one `redactory ingest` with its worker, `--rate` events a second. Samples resident
memory and open file handles of all its processes every two seconds, prints the medians of the
second quarter (the first is warm-up) and of the last, and draws all samples.
"""

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from events import events

from pipeline import broker
from pipeline.emitter import Emitter
from pipeline.kafka import ensure_topic

SAMPLE_S = 2.0


def main() -> None:
    """Runs the load, samples, prints and draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        running = broker.start(home / "broker", broker.free_port(), print)
        try:
            ensure_topic(running.bootstrap, "soak", partitions=4)
            samples, stored = soak(running.bootstrap, home, options)
        finally:
            broker.stop(home / "broker")
    report(samples, stored, options)
    if options.plot:
        draw(samples, options.plot)


def soak(
    bootstrap: str, home: Path, options: argparse.Namespace
) -> tuple[list[tuple[float, float, int]], int]:
    """(minute, resident MB, file handles) every two seconds; and how many events were sent."""
    words = ["ingest", "--bootstrap", bootstrap, "--topic", "soak", "--lake", str(home / "lake")]
    words += ["--keys", str(home / "keys.json"), "--flush-interval-s", "2"]
    command = [sys.executable, "-P", "-m", "pipeline", *words]
    ingest = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    samples, sent, started = [], 0, time.monotonic()
    stream = events(10**9, 7, time.time_ns() // 1000)
    with Emitter(bootstrap, "soak") as emitter:
        while (elapsed := time.monotonic() - started) < options.minutes * 60:
            while sent < elapsed * options.rate:
                emitter.emit(next(stream))
                sent += 1
            samples.append((elapsed / 60, *usage(psutil.Process(ingest.pid))))
            time.sleep(SAMPLE_S)
    ingest.send_signal(signal.SIGTERM)
    assert ingest.wait(60) == 0, "the ingest did not end well"
    return samples, sent


def usage(process: psutil.Process) -> tuple[float, int]:
    """Resident MB and open handles of a process and its children."""
    resident, handles = 0, 0
    for each in (process, *process.children(recursive=True)):
        try:
            resident += each.memory_info().rss
            handles += each.num_fds()
        except psutil.NoSuchProcess:
            continue
    return resident / 1e6, handles


def report(samples: list[tuple[float, float, int]], sent: int, options: argparse.Namespace) -> None:
    """Prints both quarters and how the last compares with the second."""
    quarter = len(samples) // 4
    print(f"{sent:,} events in {options.minutes:g} minutes")
    for name, column, unit in (("memory", 1, "MB"), ("file handles", 2, "")):
        early = statistics.median(s[column] for s in samples[quarter : 2 * quarter])
        late = statistics.median(s[column] for s in samples[-quarter:])
        most = max(s[column] for s in samples)
        print(f"{name:12} second quarter {early:.0f} {unit}, last {late:.0f} {unit}", end="")
        print(f" (ratio {late / early:.2f}), most {most:.0f} {unit}")


def draw(samples: list[tuple[float, float, int]], path: Path) -> None:
    """Two panels over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    minutes = [s[0] for s in samples]
    figure, (top, bottom) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 5))
    top.plot(minutes, [s[1] for s in samples])
    top.set(ylabel="resident memory, MB", ylim=(0, None), title="redactory ingest, steady load")
    bottom.plot(minutes, [s[2] for s in samples])
    bottom.set(ylabel="file handles", ylim=(0, None), xlabel="minutes")
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
