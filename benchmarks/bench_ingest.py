"""How fast an ingest is: with redaction and without, beside loops one would write, and at scale.

    python benchmarks/bench_ingest.py [--events 50000] [--rounds 3] [--out benchmarks/results]

Everything runs on one real broker in one session.  Each round measures every variant once, in turn,
each in a process of its own, and ratios are taken within a round.  Rates are CPU time, start-up of
Python and libraries excepted; quote the ratios, not the rates.  Then the cost of an event by the
number of events and of partitions.  Writes `ingest.md` and, with matplotlib, `ingest.png`.
"""

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from events import events

ROOT = Path(__file__).parent
PARTITIONS = 8
PRESIDIO = "Presidio loop"
TWO = "two workers"
HALVES = ("first of two", "second of two")
VARIANTS = ("redacting", TWO, "not redacting", "bare loop", PRESIDIO)
TARGETS = {
    "redacting / not redacting": "at least 0.5",
    "redacting / bare loop": "at least 0.35",
    "redacting / Presidio loop": "at least 50",
    "two workers / redacting": "CPU seconds per event at most 1.2 times those of one",
}
PRESIDIO_SHARE = 0.02
"""Part of the events that the slowest variant gets."""


def main() -> None:
    """Measures and prints, or, as a child, runs one variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--slice-records", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--counts", type=int, nargs="*", default=[10_000, 50_000, 200_000])
    parser.add_argument("--partitions", type=int, nargs="*", default=[1, 8, 64])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=4, metavar=("VARIANT", "BOOTSTRAP", "TOPIC", "DIR"))
    options = parser.parse_args()
    if options.child:
        variant, bootstrap, topic, folder = options.child
        print(json.dumps(run(variant, bootstrap, topic, Path(folder), options)))
        return
    from pipeline import broker

    with tempfile.TemporaryDirectory() as folder:
        running = broker.start(Path(folder) / "broker", broker.free_port(), print)
        try:
            bench = Bench(running.bootstrap, Path(folder), options)
            text, costs = bench.report()
        finally:
            broker.stop(Path(folder) / "broker")
    print(text)
    if options.out:
        options.out.mkdir(exist_ok=True)
        command = f"python benchmarks/bench_ingest.py {' '.join(sys.argv[1:])}"
        about = f"# Ingest\n\n`{command}`, on {os.cpu_count()} shared cores.\n\n```\n{text}\n```\n"
        (options.out / "ingest.md").write_text(about)
        draw(bench.rates, costs, options.out / "ingest.png")


class Bench:
    """The measurements of one session; topics are filled once."""

    def __init__(self, bootstrap: str, folder: Path, options: argparse.Namespace) -> None:
        self.bootstrap, self.folder, self.options = bootstrap, folder, options
        self.runs = 0
        self.rates: dict[str, list[float]] = {}

    def topic(self, count: int, partitions: int) -> str:
        """A topic with so many events."""
        from pipeline.emitter import Emitter
        from pipeline.kafka import ensure_topic

        name = f"bench-{count}-{partitions}"
        if ensure_topic(self.bootstrap, name, partitions=partitions):
            with Emitter(self.bootstrap, name) as emitter:
                for event in events(count, 1, time.time_ns() // 1000):
                    emitter.emit(event)
        return name

    def cpu_s(self, variant: str, topic: str) -> tuple[float, int]:
        """CPU seconds of one run over a topic, and how many events it took."""
        self.runs += 1
        # Workers are processes of their own from the start: forked ones would lack the threads of
        # the libraries they were forked from.
        started = [self._start(each, topic) for each in (HALVES if variant == TWO else (variant,))]
        told = [_told(process) for process in started]
        return sum(each["cpu_s"] for each in told), max(each["events"] for each in told)

    def _start(self, variant: str, topic: str) -> "subprocess.Popen[str]":
        words = [sys.executable, __file__, "--child", variant, self.bootstrap, topic]
        words += [str(self.folder / f"run-{self.runs}")]
        words += ["--slice-records", str(self.options.slice_records)]
        words += ["--events", topic.split("-")[1]]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def report(self) -> tuple[str, dict[str, list[tuple[int, float]]]]:
        """All measurements as text, and the costs for the plot."""
        count, rounds = self.options.events, self.options.rounds
        topic = self.topic(count, PARTITIONS)
        variants = [v for v in VARIANTS if v != PRESIDIO or has_presidio()]
        for _ in range(rounds):
            for variant in variants:
                seconds, taken = self.cpu_s(variant, topic)
                self.rates.setdefault(variant, []).append(taken / seconds)
        costs = self.costs()
        lines = [f"{count:,} events in {PARTITIONS} partitions, slices of "
                 f"{self.options.slice_records:,}, {rounds} rounds"]  # fmt: skip
        lines += list(self.comparison())
        if not has_presidio():
            lines.append("Presidio is not installed: its loop was not run")
        lines += ["", "microseconds of CPU per event, without what an ingest of nothing takes:"]
        for name, points in costs.items():
            lines.append(f"{name:13} " + "  ".join(f"{x:,}: {cost:.0f}" for x, cost in points))
        return "\n".join(lines), costs

    def comparison(self) -> Iterator[str]:
        """The rates and their ratios, medians with the spread."""
        for variant, rates in self.rates.items():
            yield f"{variant:14} {_spread(rates, ',.0f')} events per CPU second"
        for name, target in TARGETS.items():
            one, _, other = name.partition(" / ")
            if other in self.rates:
                pairs = zip(self.rates[one], self.rates[other], strict=True)
                ratios = [b / a if one == TWO else a / b for a, b in pairs]
                yield f"{name}: {_spread(ratios, '.2f')}, wanted: {target}"

    def costs(self) -> dict[str, list[tuple[int, float]]]:
        """Microseconds per event by the number of events and of partitions."""
        at_rest, _ = self.cpu_s("redacting", self.topic(0, PARTITIONS))

        def cost(count: int, partitions: int) -> float:
            seconds, taken = self.cpu_s("redacting", self.topic(count, partitions))
            return (seconds - at_rest) / taken * 1e6

        few = self.options.events
        return {
            "by events": [(n, cost(n, PARTITIONS)) for n in self.options.counts],
            "by partitions": [(p, cost(few, p)) for p in self.options.partitions],
        }


def _told(process: "subprocess.Popen[str]") -> dict[str, float]:
    """What a child printed last."""
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(errors)
    return json.loads(out.splitlines()[-1])


def _spread(values: list[float], form: str) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def has_presidio() -> bool:
    """Whether the peer is installed."""
    return importlib.util.find_spec("presidio_analyzer") is not None


def run(
    variant: str, bootstrap: str, topic: str, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """One variant over a topic; CPU seconds without start-up."""
    if variant == "bare loop":
        return loop(bootstrap, topic, folder, options.events, options, lambda body: body)
    if variant == PRESIDIO:
        few = max(1, int(options.events * PRESIDIO_SHARE))
        return loop(bootstrap, topic, folder, few, options, presidio())
    from pipeline import opening, worker
    from pipeline.config import IngestConfig, SliceLimits

    config = IngestConfig(
        bootstrap=bootstrap,
        topic=topic,
        lake=str(folder),
        keys=str(folder.with_suffix(".keys")),
        until_caught_up=True,
        limits=SliceLimits(records=options.slice_records),
    )
    opening.check_start(config)
    rules = opening.open_rules(config)
    if variant == "not redacting":
        rules = replace(rules, redactor=PassThrough(rules.redactor))
    opening.open_rules = lambda _: rules
    worker.collect_seldom()
    started = cpu_s()
    if variant in HALVES:
        config = config.share(HALVES.index(variant), len(HALVES))
    worker.run_once(config)
    return {"cpu_s": cpu_s() - started, "events": options.events}


class PassThrough:
    """Looks like a redactor and changes nothing: what the rest of the pipeline costs."""

    def __init__(self, redactor):
        self.digest, self.key_id, self.masks = redactor.digest, redactor.key_id, redactor.masks
        self.pseudonym, self.keyed_hash = redactor.pseudonym, redactor.keyed_hash

    def redact_json(self, body, memory=None):
        from redactors import Redacted

        return Redacted(body, ())

    def redact_identifiers(self, columns):
        return dict(columns), ()


def presidio():
    """Runs Presidio's pattern recognisers over a body, as one would first write it."""
    from bench_redact import presidio_patterns

    find = presidio_patterns()

    def masked(body: str) -> str:
        for results in find(body):
            for found in sorted(results or (), key=lambda found: -found.start):
                body = f"{body[: found.start]}<{found.entity_type}>{body[found.end :]}"
        return body

    return masked


def loop(
    bootstrap: str, topic: str, folder: Path, count: int, options: argparse.Namespace, mask
) -> dict[str, float]:
    """Consume → orjson → pyarrow, without commits, order or proof."""
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq
    from confluent_kafka import Consumer, TopicPartition

    from schemas import decode

    folder.mkdir()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bare"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    started, done, rows = cpu_s(), 0, []
    while done < count:
        for message in consumer.consume(min(1000, count - done), 1.0):
            event = decode(message.value())
            rows.append(
                {
                    "event_id": event.event_id,
                    "run_id": event.run_id,
                    "sequence": event.sequence,
                    "kind": event.kind,
                    "body": mask(orjson.dumps(orjson.loads(event.body)).decode()),
                }
            )
            done += 1
            if len(rows) == options.slice_records or done == count:
                pq.write_table(pa.Table.from_pylist(rows), folder / f"{done}.parquet")
                rows = []
    consumer.close()
    return {"cpu_s": cpu_s() - started, "events": count}


def cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended, all threads."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def draw(
    rates: dict[str, list[float]], costs: dict[str, list[tuple[int, float]]], path: Path
) -> None:
    """The rates as bars, the costs as lines."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(13, 4))
    names = list(rates)
    left.barh(names[::-1], [statistics.median(rates[name]) for name in names[::-1]])
    left.set(xlabel="events per CPU second", xscale="log")
    for axes, (name, points) in zip((middle, right), costs.items(), strict=True):
        axes.plot([x for x, _ in points], [cost for _, cost in points], marker="o")
        axes.set(xlabel=name.removeprefix("by "), xscale="log", ylim=(0, None))
    middle.set(ylabel="CPU µs per event, redacting")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
