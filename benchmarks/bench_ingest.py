"""How fast one worker ingests, with redaction and without, and against a bare loop.

    python benchmarks/bench_ingest.py [--events 200000] [--slice-records 2000] [--rounds 3]

Everything runs on one real broker in one session; each round measures every variant once, in turn,
and the ratios are taken within a round.  Prints medians with the spread.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from events import events

ROOT = Path(__file__).parent
VARIANTS = ("redacting", "not redacting", "bare loop")


def main() -> None:
    """Measures and prints, or, as a child, runs one variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--slice-records", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=3, metavar=("VARIANT", "BOOTSTRAP", "DIR"))
    options = parser.parse_args()
    if options.child:
        variant, bootstrap, folder = options.child
        print(json.dumps(run(variant, bootstrap, Path(folder), options)))
        return
    from pipeline import broker

    with tempfile.TemporaryDirectory() as folder:
        running = broker.start(Path(folder) / "broker", broker.free_port(), print)
        try:
            produce(running.bootstrap, options.events)
            report(measure(running.bootstrap, Path(folder), options), options)
        finally:
            broker.stop(Path(folder) / "broker")


def produce(bootstrap: str, count: int) -> None:
    """Fills the topic."""
    from pipeline.emitter import Emitter
    from pipeline.kafka import ensure_topic

    ensure_topic(bootstrap, "bench")
    with Emitter(bootstrap, "bench") as emitter:
        for event in events(count, 1, time.time_ns() // 1000):
            emitter.emit(event)


def measure(bootstrap: str, folder: Path, options: argparse.Namespace) -> dict[str, list[float]]:
    """CPU seconds a variant by round, each in a process of its own."""
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for round_ in range(options.rounds):
        for variant in VARIANTS:
            target = folder / f"{variant.replace(' ', '-')}-{round_}"
            words = [sys.executable, __file__, "--child", variant, bootstrap, str(target)]
            words += ["--events", str(options.events)]
            words += ["--slice-records", str(options.slice_records)]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            seconds[variant].append(json.loads(done.stdout.splitlines()[-1])["cpu_s"])
    return seconds


def report(seconds: dict[str, list[float]], options: argparse.Namespace) -> None:
    """Prints the table."""
    print(f"{options.events:,} events, slices of {options.slice_records:,}, one worker")
    for variant, taken in seconds.items():
        rates = [options.events / each for each in taken]
        print(f"{variant:14} {statistics.median(rates):9,.0f} events per CPU second", end="  ")
        print(f"({min(rates):,.0f} to {max(rates):,.0f})")
    for other in VARIANTS[1:]:
        ratios = [b / a for a, b in zip(seconds["redacting"], seconds[other], strict=True)]
        print(f"redacting / {other}: {statistics.median(ratios):.2f}", end=" ")
        print(f"({min(ratios):.2f} to {max(ratios):.2f})")


def run(
    variant: str, bootstrap: str, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """One variant over the whole topic; CPU seconds without start-up."""
    if variant == "bare loop":
        return bare_loop(bootstrap, folder, options)
    from pipeline import opening, worker
    from pipeline.config import IngestConfig, SliceLimits

    os.environ["REDACTORY_KEYS"] = str(folder.with_suffix(".keys"))
    config = IngestConfig(
        bootstrap=bootstrap,
        topic="bench",
        lake=str(folder),
        until_caught_up=True,
        limits=SliceLimits(records=options.slice_records),
    )
    opening.check_start(config)
    rules = opening.open_rules(config)
    if variant == "not redacting":
        rules = replace(rules, redactor=PassThrough(rules.redactor))
    opening.open_rules = lambda _: rules
    started = cpu_s()
    worker.run_once(config)
    return {"cpu_s": cpu_s() - started}


class PassThrough:
    """Looks like a redactor and changes nothing: what the rest of the pipeline costs."""

    def __init__(self, redactor):
        self.digest, self.key_id = redactor.digest, redactor.key_id
        self.pseudonym, self.keyed_hash = redactor.pseudonym, redactor.keyed_hash

    def redact_json(self, body, memory=None):
        from redactors import Redacted

        return Redacted(body, ())

    def redact_identifiers(self, columns):
        return dict(columns), ()


def bare_loop(bootstrap: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Consume → orjson → pyarrow, without commits, order, masks or proof."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq
    from confluent_kafka import Consumer, TopicPartition

    from schemas import decode

    folder.mkdir()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bare"})
    consumer.assign([TopicPartition("bench", 0, 0)])
    started, done, rows = cpu_s(), 0, []
    while done < options.events:
        for message in consumer.consume(1000, 1.0):
            event = decode(message.value())
            rows.append(
                {
                    "event_id": event.event_id,
                    "run_id": event.run_id,
                    "sequence": event.sequence,
                    "kind": event.kind,
                    "body": orjson.dumps(orjson.loads(event.body)).decode(),
                }
            )
            done += 1
            if len(rows) == options.slice_records or done == options.events:
                pq.write_table(pa.Table.from_pylist(rows), folder / f"{done}.parquet")
                rows = []
    consumer.close()
    return {"cpu_s": cpu_s() - started}


def cpu_s() -> float:
    """CPU seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
