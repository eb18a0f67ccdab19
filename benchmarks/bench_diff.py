"""What it costs to ask of a lake what other rules would do to it.

    python benchmarks/bench_diff.py [--runs 1000] [--rounds 3] [--processes 2] [--folder FOLDER]

The full size is 10,000 runs, which are 1,000,000 events.  The lake is made by `many_runs.py` and
kept if a folder is given (one that is there already is used as it is).  Compared are the built-in
rules and the same with one rule more, one with another pattern, and one gone.  The plain way,
every event masked under both rulesets with the rules ready, is measured on some: the ratio says
what it saves to look with the rules that differ alone.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from many_runs import EVENTS_A_RUN, RUNS_TOGETHER, make_lake

from pipeline.lake.live import read_lake
from pipeline.lake.parquet import from_parquet
from pipeline.lake.store import Store
from pipeline.review.diff import Difference
from pipeline.review.diff_lake import compare_over_lake, question
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
        times_s = []
        for _ in range(options.rounds):
            difference, began_s = Difference([], [], {}), time.perf_counter()
            asked = question(store.location, old, new, None)
            events = compare_over_lake(difference, asked, options.processes, lambda *_: None)
            times_s.append(time.perf_counter() - began_s)
        tell(events, times_s, plain_s, options.processes)
        print(f"found: {difference.counts}")


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
    began_s = time.perf_counter()
    for body in bodies:
        for redactor in redactors:
            redactor.redact_json(str(body))
    return (time.perf_counter() - began_s) / PLAIN


def tell(events: int, times_s: list[float], plain_s: float, processes: int) -> None:
    """The median with its spread, and the ratio to the plain way."""
    middle = statistics.median(times_s)
    print(
        f"{events:,} events ({events // EVENTS_A_RUN:,} runs), {processes} processes: "
        f"{middle:.1f} s in the middle ({min(times_s):.1f} to {max(times_s):.1f}), rules compiled "
        f"anew each time: {1e6 * middle / events:.0f} µs an event"
    )
    ratio = plain_s * events / processes / middle
    print(f"the plain way takes {1e6 * plain_s:.0f} µs of one core an event: {ratio:.1f} ×")


if __name__ == "__main__":
    main()
