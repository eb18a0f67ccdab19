"""The demo's steps: a broker, the runs of a scripted agent, an ingest, a proof."""

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from pipeline import broker
from pipeline.config import IngestConfig
from pipeline.demo_agent import demo_events
from pipeline.emitter import Emitter
from pipeline.errors import UsageError
from pipeline.kafka import ensure_topic
from pipeline.lake.proof.findings import Report
from pipeline.lake.verify import Checks, verify
from pipeline.opening import check_start
from pipeline.records.proof import check_states
from pipeline.supervisor import IngestReport, Supervisor
from redactors import load_or_create_keys

TOPIC = "support-runs"
RUNS = 40
SEED = 1
PARTITIONS = 2

Say = Callable[[str], None]
"""Takes one line of progress for a person."""


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo has made; `rules` is None where only the built-in rules were used."""

    lake: Path
    keys: Path
    rules: Path | None
    emitted: int
    ingested: IngestReport
    proof: Report

    @property
    def missing(self) -> int:
        """Events that were emitted and not stored."""
        return self.emitted - self.ingested.counts["events"]

    @property
    def is_clean(self) -> bool:
        """Whether every event is stored once and nothing in the lake is against its rules."""
        return not self.missing and not self.proof.violations


def run_demo(directory: Path, now_us: int, say: Say) -> Demo:
    """Makes `directory` anew and runs everything in it; the broker is gone afterwards.

    Events lie in the time up to `now_us` (epoch microseconds).  Raises UsageError for a directory
    that holds something else, and whatever a step raises.
    """
    with _ending_on_signals():
        directory = _renewed(directory.absolute())
        lake, keys = directory / "lake", directory / "keys.json"
        load_or_create_keys(keys)
        rules = _rules(directory)
        if rules is None:
            say("without the extra `ner` no names are looked for in prose")
        with _running_broker(directory / "broker", say) as bootstrap:
            say(f"emitting {RUNS} runs of a scripted support agent")
            emitted = _emit(bootstrap, now_us)
            say(f"ingesting {emitted} events: Kafka, Beam, masked Parquet")
            config = IngestConfig(
                bootstrap,
                TOPIC,
                str(lake),
                rules=str(rules) if rules else None,
                keys=str(keys),
                until_caught_up=True,
            )
            check_start(config)
            ingested = Supervisor(config, workers=1, on_progress=lambda report: None).run()
        say("verifying the lake")
        proof = verify(str(lake), Checks(keys=keys, rules=rules, processes=1), beside=check_states)
        return Demo(lake, keys, rules, emitted, ingested, proof)


def _emit(bootstrap: str, now_us: int) -> int:
    ensure_topic(bootstrap, TOPIC, partitions=PARTITIONS)
    with Emitter(bootstrap, TOPIC) as emitter:
        for event in demo_events(RUNS, SEED, now_us):
            emitter.emit(event)
    return emitter.delivered


def _renewed(directory: Path) -> Path:
    """The directory without what an earlier demo left there."""
    ours = {"broker", "lake", "keys.json", "rules.yaml"}
    if directory.is_dir():
        others = sorted(path.name for path in directory.iterdir() if path.name not in ours)
        if others:
            raise UsageError(
                f"{directory} holds other files than a demo's ({others[0]})",
                code="demo-directory",
                hint="give --dir a new directory, or one of an earlier demo",
            )
        broker.stop(directory / "broker")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    return directory


def _rules(directory: Path) -> Path | None:
    if find_spec("presidio_analyzer") is None:
        return None
    rules = directory / "rules.yaml"
    rules.write_text((files("pipeline.demo") / "rules.yaml").read_text("utf-8"), "utf-8")
    return rules


@contextmanager
def _running_broker(directory: Path, say: Say) -> Iterator[str]:
    say("starting a Kafka broker")
    try:
        yield broker.start(directory, broker.free_port(), say).bootstrap
    finally:
        # A second Ctrl-C must not leave the broker behind.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
        broker.stop(directory)
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Turns the signals that would end the process at once into an exit that cleans up."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
