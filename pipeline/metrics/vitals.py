"""What is known of a running ingest, gathered beside it; read by whoever asks for its health."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.config import IngestConfig
from pipeline.lag import LagWatch
from pipeline.supervisor import IngestReport, Workers
from redactors import Ruleset
from redactors.ruleset import FieldRule, Recognizer, Rule

OTHER: Final = "other"
"""Stands for rules that the ruleset does not name: a producer may call its own as it likes."""

OF_THE_ENGINE: Final[Mapping[str, str]] = {
    "identifier": "hash",
    "opaque-blob": "length",
    "subject": "hash",
}
"""What masks though no ruleset names it, with its action."""

SILENCE_S: Final = 60.0
"""How long the ingest may stand still, or a worker be missing, before it counts as unhealthy: a
worker that failed is started again within half of it."""

BROKER_SILENCE_S: Final = 30.0
"""How old the broker's last answer may be."""

OVERDUE_S: Final = 60.0
"""A partition with something to read is to be committed within this, or six flush intervals."""


def actions_of(ruleset: Ruleset) -> dict[str, str]:
    """The action of each rule by its id, also for what a run's memory masks in its name."""
    rules: tuple[Rule | FieldRule | Recognizer, ...]
    rules = (*ruleset.rules, *ruleset.fields, *ruleset.recognizers)
    named = {rule.id: rule.action for rule in rules}
    remembered = {f"memory:{rule.id}": rule.action for rule in ruleset.fields if rule.propagate}
    return {**OF_THE_ENGINE, **named, **remembered}


@dataclass(slots=True)
class Partition:
    """One partition: the next offset to commit, where it ends, and how long it has been behind.

    `committed_s` is epoch seconds, `behind_since_s` monotonic (None: nothing is left to commit).
    """

    position: int | None = None
    high: int | None = None
    committed_s: float | None = None
    slice_age_s: float | None = None
    behind_since_s: float | None = None

    @property
    def lag(self) -> int | None:
        """Messages that are not committed yet; None: not known."""
        if self.position is None or self.high is None:
            return None
        return max(0, self.high - self.position)


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets `[start, end)` that were committed under a ruleset; times are epoch seconds."""

    topic: str
    partition: int
    start: int
    end: int
    ruleset: str
    opened_s: float
    committed_s: float


@dataclass(slots=True)
class Sweeps:
    """What the sweeps of this ingest came to; `last_s` is that of the last complete one."""

    complete: int = 0
    incomplete: int = 0
    rows: int = 0
    last_s: float | None = None


@dataclass(slots=True)
class Vitals:
    """Gathered by `update`, by one thread; read by others that hold `lock`.

    `now_s` gives epoch seconds, `monotonic_s` measures.  Nothing here grows with the payload: what
    it is counted by are rules of the ruleset, codes, reasons and partitions.
    """

    config: IngestConfig
    now_s: Callable[[], float]
    monotonic_s: Callable[[], float]
    key_id: str
    key_changed_s: float
    actions: Mapping[str, str] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    counts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    shadow: Counter[str] = field(default_factory=Counter)
    redactions: Counter[tuple[str, str]] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    partitions: dict[int, Partition] = field(default_factory=dict)
    workers: Workers = field(default_factory=Workers)
    restarts: int = 0
    ruleset: str = ""
    is_refusing_rules: bool = False
    broker_s: float | None = None
    sweeps: Sweeps = field(default_factory=Sweeps)
    on_slice: Callable[[Slice], None] | None = None
    seen_s: float = 0.0
    complete_s: float = 0.0
    _redactions_seen: Counter[str] = field(default_factory=Counter)
    _gaps_seen: int = 0

    def __post_init__(self) -> None:
        self.seen_s = self.complete_s = self.monotonic_s()

    def update(self, report: IngestReport, lag: LagWatch | None) -> None:
        """Takes over what has changed; `lag` None: no broker is read."""
        with self.lock:
            self.seen_s = self.monotonic_s()
            if report.counts["commits"] != self.counts["commits"]:
                self._count(report)
            self.workers = Workers(
                report.workers.wanted, report.workers.running, set(report.workers.reading)
            )
            if self.workers.running >= self.workers.wanted:
                self.complete_s = self.seen_s
            self.restarts, self.ruleset = report.restarts, report.ruleset or ""
            self.is_refusing_rules = report.refused_rules is not None
            if lag is not None:
                self.broker_s = lag.answered_s
                self._watch(report, lag.highs())

    def take_up(self, ruleset: Ruleset) -> None:
        """What is counted from here on is counted under these rules."""
        with self.lock:
            self.actions = {**self.actions, **actions_of(ruleset)}

    def swept(self, *, is_complete: bool, rows: int) -> None:
        """Notes a sweep."""
        with self.lock:
            self.sweeps.rows += rows
            if is_complete:
                self.sweeps.complete += 1
                self.sweeps.last_s = self.now_s()
            else:
                self.sweeps.incomplete += 1

    def unhealthy(self) -> list[str]:
        """Why this process should be started again; empty: it should not."""
        with self.lock:
            now_s = self.monotonic_s()
            found = []
            if now_s - self.seen_s > SILENCE_S:
                found.append("the supervisor stands still")
            if now_s - self.complete_s > SILENCE_S:
                found.append(f"{self.workers.running} of {self.workers.wanted} workers run")
            return found

    def unready(self) -> list[str]:
        """Why this instance does not do its work now; empty: it does."""
        with self.lock:
            now_s, found = self.monotonic_s(), self.unhealthy()
            if len(self.workers.reading) < self.workers.wanted:
                reading = len(self.workers.reading)
                found.append(f"{reading} of {self.workers.wanted} workers read")
            if self.config.files:
                return found
            if self.broker_s is None or now_s - self.broker_s > BROKER_SILENCE_S:
                found.append("the broker does not answer")
            late = [number for number in sorted(self.partitions) if self.is_overdue(number)]
            if late:
                found.append(f"overdue partitions: {', '.join(map(str, late))}")
            return found

    def is_overdue(self, number: int) -> bool:
        """Whether a partition has had something to commit for too long."""
        since_s = self.partitions[number].behind_since_s
        limit_s = max(OVERDUE_S, 6 * self.config.limits.age_s)
        return since_s is not None and self.monotonic_s() - since_s > limit_s

    def _count(self, report: IngestReport) -> None:
        self.counts, self.codes = Counter(report.counts), Counter(report.dead_letter_codes)
        self.shadow = Counter(report.shadow)
        for rule, count in (report.redactions - self._redactions_seen).items():
            known = rule in self.actions
            self.redactions[(rule, self.actions[rule]) if known else (OTHER, OTHER)] += count
        self._redactions_seen = Counter(report.redactions)
        for _, start, end, reason in report.gaps[self._gaps_seen :]:
            self.gaps[reason] += end - start
        self._gaps_seen = len(report.gaps)

    def _watch(self, report: IngestReport, highs: Mapping[int | str, int]) -> None:
        for number in {*highs, *report.starts, *report.ends}:
            assert isinstance(number, int)  # names are those of files
            partition = self.partitions.setdefault(number, Partition())
            before = partition.position
            position = report.ends.get(number, report.starts.get(number))
            has_moved = before is not None and position != before
            partition.position, partition.high = position, highs.get(number)
            if before is not None and position != before:
                self._moved(number, before, report)
            if not partition.lag:
                partition.behind_since_s = None
            elif has_moved or partition.behind_since_s is None:
                partition.behind_since_s = self.seen_s

    def _moved(self, number: int, start: int, report: IngestReport) -> None:
        """A slice of the partition from `start` on was committed."""
        partition, opened_us = self.partitions[number], report.opened_us.get(number)
        if opened_us is None or partition.position is None:
            return
        now_s, opened_s = self.now_s(), opened_us / 1e6
        partition.committed_s, partition.slice_age_s = now_s, max(0.0, now_s - opened_s)
        if self.on_slice is not None:
            topic, end = self.config.topic, partition.position
            self.on_slice(Slice(topic, number, start, end, self.ruleset, opened_s, now_s))
