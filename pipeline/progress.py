"""An ingest as its command runs it: what it says meanwhile, what it reports, how it is stopped."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.config import IngestConfig
from pipeline.errors import PipelineError
from pipeline.lag import LagWatch
from pipeline.metrics.monitor import Monitor, Outlets
from pipeline.metrics.vitals import Vitals
from pipeline.opening import check_start, holding_rules
from pipeline.retention.schedule import SweepSchedule
from pipeline.ruleswatch import RulesWatch, State, state_of_rules
from pipeline.saying import LogFormat, Voice, voice
from pipeline.supervisor import IngestReport, Supervisor
from redactors import RedactorsError, load_or_create_keys
from redactors.keys import default_key_file

WAITING = "waiting for"


def run_with_progress(
    config: IngestConfig,
    workers: int,
    *,
    sweeping: bool,
    outlets: Outlets,
    log_format: LogFormat,
) -> IngestReport:
    """Checks that the ingest can start, runs it, says how it goes on stderr.

    With `sweeping`, what reaches its deadline meanwhile is removed; monitoring systems
    are told by `outlets`.  Raises a PipelineError (or RedactorsError for rules and keys) if it
    cannot start or go on.
    """
    with voice(log_format) as spoken:
        try:
            return _run(config, workers, spoken, sweeping, outlets)
        except PipelineError as error:
            spoken.fail(str(error), error.hint)
            raise
        except RedactorsError as error:
            spoken.fail(str(error), "")
            raise


def _run(
    config: IngestConfig,
    workers: int,
    spoken: Voice,
    sweeping: bool,
    outlets: Outlets,
) -> IngestReport:
    key_file = Path(config.keys) if config.keys else default_key_file()
    ring, created = load_or_create_keys(key_file)
    if created:
        spoken.say(f"made key {ring.current} in your key file: keep it, masks are made with it")
    before = state_of_rules(config, date.today())
    partitions = check_start(config)
    config = holding_rules(config)
    changed_s = key_file.stat().st_mtime
    vitals = Vitals(config, time.time, time.monotonic, ring.current, changed_s)
    monitor = Monitor(vitals, spoken.say)
    warn = partial(spoken.say, level="warning")
    sweeps = SweepSchedule(config, warn, swept=monitor.swept) if sweeping else nullcontext()
    watch = nullcontext() if config.files else LagWatch(config, partitions)
    with watch as lag, sweeps, monitor.telling(outlets):
        started_s = time.monotonic()

        def on_progress(report: IngestReport) -> None:
            behind = lag.of(report.ends) if lag else None
            line = _line(report, _behind(behind) if lag else "", time.monotonic() - started_s)
            spoken.show(line, WAITING if report.waiting else "", _fields(report, behind))
            monitor.update(report, lag)

        supervisor = Supervisor(config, min(workers, len(partitions)), on_progress)
        following = _watching_rules(config, before, supervisor, monitor, spoken)
        with _stopping(supervisor), following:
            return supervisor.run()


def _watching_rules(
    config: IngestConfig, state: State, supervisor: Supervisor, monitor: Monitor, spoken: Voice
) -> AbstractContextManager[object]:
    """Has the workers follow the files of the rules, and says if it cannot be."""
    monitor.take_up(config.ruleset or "")
    if config.rules is None:
        return nullcontext()

    def take_up(digest: str) -> None:
        if digest != supervisor.report.ruleset:
            spoken.say(f"the rules changed: going on under {digest[:12]}")
        monitor.take_up(digest)
        supervisor.switch(digest)

    def refuse(why: str) -> None:
        spoken.say(f"the changed rules are refused, those of before go on: {why}", "warning")
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


def _fields(report: IngestReport, lag: int | None) -> dict[str, Any]:
    """The line's numbers, for a program."""
    names = ("events", "bytes", "dead_letters", "refused", "commits")
    return {
        **{name: report.counts[name] for name in names},
        "redactions": report.redactions.total(),
        "restarts": report.restarts,
        "lag": lag,
        "waiting": report.waiting,
    }


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
