"""The vitals of an ingest as Prometheus metrics; `docs/running.md` lists them."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from pipeline.metrics.vitals import Vitals

Labelled: TypeAlias = Iterable[tuple[tuple[str, ...], float]]
"""Values with those of their labels."""


class Exposition(Collector):
    """Collects what is known at the moment of asking."""

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    def collect(self) -> Iterable[Metric]:
        """Every metric, whole before the ingest may change anything."""
        with self._vitals.lock:
            return [
                *_counts(self._vitals),
                *_by_partition(self._vitals),
                *_process(self._vitals),
                *_sweeps(self._vitals),
            ]


def registry(vitals: Vitals) -> CollectorRegistry:
    """A registry with these metrics only."""
    found = CollectorRegistry(auto_describe=False)
    found.register(Exposition(vitals))
    return found


def _counts(vitals: Vitals) -> Iterator[Metric]:
    for name, what in (
        ("messages", "Messages read and committed"),
        ("events", "Events stored"),
        ("bytes", "Bytes of the messages read and committed"),
        ("commits", "Slices committed"),
        ("refused", "Events that were past their deadline: counted, stored nowhere"),
    ):
        yield CounterMetricFamily(f"redactory_{name}", what, value=vitals.counts[name])
    dead = {(code,): count for code, count in vitals.codes.items()}
    yield _counter("dead_letters", "Messages that could not be read", ("code",), dead.items())
    yield _counter("redactions", "Values masked", ("rule", "action"), vitals.redactions.items())
    shadow = {(rule,): count for rule, count in vitals.shadow.items()}
    yield _counter("shadow", "What rules in shadow would have masked", ("rule",), shadow.items())
    gaps = {(reason,): count for reason, count in vitals.gaps.items()}
    yield _counter("gap_offsets", "Offsets that hold no row", ("reason",), gaps.items())


def _by_partition(vitals: Vitals) -> Iterator[Metric]:
    found = vitals.partitions.items()
    lag = {(str(p),): each.lag for p, each in found if each.lag is not None}
    yield _gauge("lag_messages", "Messages not committed yet", ("partition",), lag.items())
    ages = {(str(p),): each.slice_age_s for p, each in found if each.slice_age_s is not None}
    what = "From the opening of the last slice to its commit"
    yield _gauge("slice_age_seconds", what, ("partition",), ages.items())
    times = {(str(p),): each.committed_s for p, each in found if each.committed_s is not None}
    yield _gauge("last_commit_timestamp_seconds", "Last commit", ("partition",), times.items())
    late = {(str(p),): float(vitals.is_overdue(p)) for p, _ in found}
    yield _gauge("overdue", "1: has waited too long for a commit", ("partition",), late.items())


def _process(vitals: Vitals) -> Iterator[Metric]:
    workers = vitals.workers
    states = {
        ("wanted",): workers.wanted,
        ("running",): workers.running,
        ("reading",): len(workers.reading),
    }
    yield _gauge("workers", "Worker processes", ("state",), states.items())
    yield CounterMetricFamily(
        "redactory_worker_restarts", "Workers started again", value=vitals.restarts
    )
    ready = float(not vitals.unready())
    yield GaugeMetricFamily("redactory_ready", "1: /readyz says yes", value=ready)
    yield InfoMetricFamily(
        "redactory_build", "This program", value={"version": version("redactory")}
    )
    yield InfoMetricFamily("redactory_rules", "Rules in force", value={"digest": vitals.ruleset})
    yield GaugeMetricFamily(
        "redactory_rules_refused",
        "1: changed rules were refused, those of before go on",
        value=float(vitals.is_refusing_rules),
    )
    age_s = max(0.0, vitals.now_s() - vitals.key_changed_s)
    what = "Since the key file was changed"
    yield _gauge("key_age_seconds", what, ("key_id",), [((vitals.key_id,), age_s)])


def _sweeps(vitals: Vitals) -> Iterator[Metric]:
    sweeps = vitals.sweeps
    results = {("complete",): sweeps.complete, ("incomplete",): sweeps.incomplete}
    yield _counter("sweeps", "Sweeps of this ingest", ("result",), results.items())
    yield CounterMetricFamily("redactory_swept_rows", "Rows removed by them", value=sweeps.rows)
    what = "Last complete sweep"
    yield GaugeMetricFamily("redactory_last_sweep_timestamp_seconds", what, sweeps.last_s)


def _counter(name: str, what: str, labels: Sequence[str], values: Labelled) -> Metric:
    family = CounterMetricFamily(f"redactory_{name}", what, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _gauge(name: str, what: str, labels: Sequence[str], values: Labelled) -> Metric:
    family = GaugeMetricFamily(f"redactory_{name}", what, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family
