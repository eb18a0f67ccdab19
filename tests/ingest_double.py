"""An ingest as its supervisor reports it, for tests of what is told of it."""

from dataclasses import dataclass, field
from typing import Any, cast

from pipeline.config import IngestConfig
from pipeline.lag import LagWatch
from pipeline.metrics.vitals import Vitals
from pipeline.supervisor import IngestReport
from redactors import load_ruleset

NOW_S = 1_800_000_000.0
SLICE = {"messages": 10, "events": 7, "dead_letters": 2, "refused": 1, "bytes": 500}


@dataclass
class Lag:
    """A topic's ends as a lag watch knows them."""

    ends: dict[int, int]
    answered_s: float | None = 0.0

    def highs(self) -> dict[int, int]:
        return dict(self.ends)


@dataclass
class Ingest:
    """An ingest as its supervisor reports it, with a clock that is set by hand."""

    seconds: float = 0.0
    report: IngestReport = field(default_factory=lambda: IngestReport(ruleset="ab" * 32))
    lag: Lag = field(default_factory=lambda: Lag({0: 0, 1: 0}))

    def __post_init__(self) -> None:
        config = IngestConfig("broker", "runs", "lake")
        self.vitals = Vitals(
            config, lambda: NOW_S + self.seconds, lambda: self.seconds, "k1", NOW_S - 60
        )
        self.vitals.take_up(load_ruleset())
        self.report.workers.wanted = self.report.workers.running = 2
        self.report.workers.reading = {0, 1}
        self.report.starts = {0: 0, 1: 0}
        self.update()

    def update(self, seconds: float = 0.0, *, answers: bool = True) -> None:
        self.seconds += seconds
        if answers:
            self.lag.answered_s = self.seconds
        self.vitals.update(self.report, cast(LagWatch, self.lag))

    def commit(self, partition: int, end: int, **more: Any) -> None:
        commit = {
            "counts": SLICE,
            "redactions": {},
            "dead_letter_codes": {},
            "shadow": {},
            "gaps": [],
            "end": end,
            "now_us": int((NOW_S + self.seconds - 3) * 1e6),
        }
        self.report.add(commit | more, partition)
        self.update()
