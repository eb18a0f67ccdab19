"""What a person sees of an ingest: a live line in a terminal, elsewhere a line now and then."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pipeline.config import IngestConfig
from pipeline.lag import LagWatch
from pipeline.opening import check_start, holding_rules
from pipeline.retention.schedule import SweepSchedule
from pipeline.ruleswatch import RulesWatch, State, state_of_rules
from pipeline.supervisor import IngestReport, Supervisor
from redactors import load_or_create_keys

PLAIN_EVERY_S = 10.0
"""How often a plain line is printed; that it waits, or does so no more, is printed at once."""

WAITING = "waiting for"


def run_with_progress(config: IngestConfig, workers: int, *, sweeping: bool) -> IngestReport:
    """Checks that the ingest can start, runs it, shows how it goes on stderr.

    With `sweeping`, what reaches its deadline meanwhile is removed.  Raises a PipelineError (or
    RedactorsError for rules and keys) if it cannot start or go on.
    """
    console = Console(stderr=True)
    ring, created = load_or_create_keys(Path(config.keys) if config.keys else None)
    if created:
        console.print(f"made key {ring.current} in your key file: keep it, masks are made with it")
    before = state_of_rules(config, date.today())
    partitions = check_start(config)
    config = holding_rules(config)
    sweeps = SweepSchedule(config, console.print) if sweeping else nullcontext()
    watch = nullcontext() if config.files else LagWatch(config, partitions)
    with watch as lag, _shown(console) as show, sweeps:
        started_s = time.monotonic()

        def on_progress(report: IngestReport) -> None:
            behind = _behind(lag.of(report.ends)) if lag else ""
            show(_line(report, behind, time.monotonic() - started_s))

        supervisor = Supervisor(config, min(workers, len(partitions)), on_progress)
        with _stopping(supervisor), _watching_rules(config, before, supervisor, console):
            return supervisor.run()


def _watching_rules(
    config: IngestConfig, state: State, supervisor: Supervisor, console: Console
) -> AbstractContextManager[object]:
    """Has the workers follow the files of the rules, and says if it cannot be."""
    if config.rules is None:
        return nullcontext()

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def take_up(digest: str) -> None:
        if digest != supervisor.report.ruleset:
            say(f"the rules changed: going on under {digest[:12]}")
        supervisor.switch(digest)

    def refuse(why: str) -> None:
        say(f"the changed rules are refused, those of before go on: {why}")
        supervisor.refuse_rules(why)

    return RulesWatch(config, take_up, refuse, state)


def print_report(report: IngestReport, as_json: bool) -> None:
    """Prints the finished report to stdout: a small table, or one JSON object."""
    if as_json:
        sys.stdout.write(json.dumps(report.as_dict(), sort_keys=True) + "\n")
        return
    table = Table(title="Ingested", show_header=False)
    for name in ("events", "dead_letters", "refused", "commits", "bytes"):
        table.add_row(name.replace("_", " "), f"{report.counts[name]:,}", style=None)
    for rule, count in report.redactions.most_common():
        table.add_row(f"redacted by {rule}", f"{count:,}")
    for rule, count in report.shadow.most_common():
        table.add_row(f"left by {rule} in shadow", f"{count:,}")
    for code, count in report.dead_letter_codes.most_common():
        table.add_row(f"dead letter: {code}", f"{count:,}")
    for partition, start, end, reason in report.gaps:
        table.add_row(f"gap in partition {partition}", f"[{start}, {end}) {reason}")
    Console().print(table)


def _behind(lag: int | None) -> str:
    return "lag ?" if lag is None else f"lag {lag:,}"


def _line(report: IngestReport, behind: str, elapsed_s: float) -> str:
    if report.waiting:
        return f"{WAITING} {report.waiting}"
    events = report.counts["events"]
    parts = [
        f"{events:,} events",
        f"{events / max(elapsed_s, 0.001):,.0f}/s",
        *([behind] if behind else []),
        f"{report.redactions.total():,} redactions",
    ]
    if report.counts["dead_letters"]:
        parts.append(f"{report.counts['dead_letters']:,} dead letters")
    if report.counts["refused"]:
        parts.append(f"{report.counts['refused']:,} refused")
    if report.refused_rules:
        parts.append("changed rules refused")
    return " · ".join(parts)


@contextmanager
def _shown(console: Console) -> Iterator[Callable[[str], None]]:
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            yield lambda line: live.update(Text(line))
        return
    last_s, was_waiting = -PLAIN_EVERY_S, False

    def plain(line: str) -> None:
        nonlocal last_s, was_waiting
        waits = line.startswith(WAITING)
        if waits != was_waiting or time.monotonic() - last_s >= PLAIN_EVERY_S:
            last_s, was_waiting = time.monotonic(), waits
            console.print(line, markup=False, highlight=False)

    yield plain


@contextmanager
def _stopping(supervisor: Supervisor) -> Iterator[None]:
    """Lets SIGINT and SIGTERM end the ingest cleanly while it runs."""

    def stop(signum: int, frame: FrameType | None) -> None:
        supervisor.request_stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
