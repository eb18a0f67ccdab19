"""What it costs to ask of a lake what other rules would do to it, and to make the page of a review.

    python benchmarks/bench_diff.py [--runs 1000] [--rounds 3] [--processes 2] [--folder FOLDER]

The full size is 10,000 runs, which are 1,000,000 events.  The lake is made by `many_runs.py` and
kept if a folder is given (one that is there already is used as it is).  Compared are the built-in
rules and the same with one rule more, one with another pattern, and one gone.  The plain way,
every event masked under both rulesets with the rules ready, is measured on some: the ratio says
what it saves to look with the rules that differ alone.
"""

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF
from typing import Final

from many_runs import RUNS_TOGETHER, make_lake

from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.store import Store
from pipeline.review.diff import Difference
from pipeline.review.diff_lake import compare_over_lake, question
from pipeline.review.report.page import page
from pipeline.review.report.review import review
from redactors import KeyRing, Redactor, Ruleset, load_ruleset
from redactors.ruleset import Rule

PLAIN: Final = 1_000
"""Events that are compared in the plain way."""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help=f"a multiple of {RUNS_TOGETHER}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to make it, or where it was made")
    options = parser.parse_args()
    old = load_ruleset()
    new = changed(old)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        store = Store.open(folder / "lake", create=not (folder / "lake").exists())
        if not read_lake(store).files["events"]:
            make_lake(store, options.runs, time.time_ns() // 1000)
        plain_s = plainly(store, old, new)
        times = []
        for _ in range(options.rounds):
            difference, clock = Difference([], [], {}), Clock()
            asked = question(store.location, old, new, None)
            events = compare_over_lake(difference, asked, options.processes, lambda *_: None)
            times.append(clock.read())
        tell(f"comparing over {events:,} events, {options.processes} processes", times)
        print(f"found: {difference.counts}")
        middle_us = 1e6 * statistics.median(cpu_s for _, cpu_s in times) / events
        plain_us = 1e6 * plain_s
        print(
            f"an event: {middle_us:.0f} µs of CPU, compiling included; in the plain way "
            f"{plain_us:.0f} µs: {plain_us / middle_us:.1f} ×"
        )
        times = []
        for _ in range(options.rounds):
            clock = Clock()
            found = review(read_lake(store), new, None, time.time_ns() // 1000, lambda *_: None)
            size_kb = len(page(found)) / 1000
            times.append(clock.read())
        tell(f"the page of a review, {size_kb:,.0f} KB", times)


class Clock:
    """Seconds on the wall and of all cores since it was made."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter(), self._cpu_s()

    def read(self) -> tuple[float, float]:
        """(wall, CPU)"""
        return time.perf_counter() - self._began_s[0], self._cpu_s() - self._began_s[1]

    def _cpu_s(self) -> float:
        used = [resource.getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in used)


def changed(old: Ruleset) -> Ruleset:
    """The ruleset with one rule more, one changed, one gone."""
    _, second, *rest = old.rules
    wider = second.model_copy(update={"pattern": f"(?:{second.pattern})"})
    more = Rule.model_validate(
        {
            "id": "bench-more", "kind": "secret", "label": "SECRET",
            "pattern": "abcd[a-h]{4}", "reason": "bench", "owner": "bench",
            "matches": (),
        }
    )  # fmt: skip
    return old.model_copy(update={"rules": (wider, *rest, more)})


def plainly(store: Store, old: Ruleset, new: Ruleset) -> float:
    """Seconds an event of masking under both, with the rules ready."""
    file = read_lake(store).files["events"][0]
    bodies = from_parquet(store.get(file.path), ("body",))["body"].to_pylist()[:PLAIN]
    redactors = [Redactor(ruleset, KeyRing.generate()) for ruleset in (old, new)]
    began_s = time.process_time()
    for body in bodies:
        for redactor in redactors:
            redactor.redact_json(str(body))
    return (time.process_time() - began_s) / PLAIN


def tell(what: str, times: list[tuple[float, float]]) -> None:
    """The medians with their spread."""
    for name, taken in zip(("wall", "CPU"), zip(*times, strict=True), strict=True):
        middle = statistics.median(taken)
        print(f"{what}: {middle:.1f} s {name} ({min(taken):.1f} to {max(taken):.1f})")


if __name__ == "__main__":
    main()
