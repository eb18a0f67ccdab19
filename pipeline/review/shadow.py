"""What rules in shadow would have masked of a lake's traffic, as its commit log says."""

from collections import defaultdict
from dataclasses import dataclass, field

from pipeline.lake.history import read_histories
from pipeline.lake.store import Store
from pipeline.shadow import distinct

MAX_SAMPLES = 10


@dataclass(slots=True)
class Trial:
    """What a rule in shadow would have masked `count` times, first and last in slices of these
    times (epoch microseconds), under the ruleset with this digest; some as masked samples."""

    rule: str
    ruleset: str
    count: int = 0
    first_us: int = 0
    last_us: int = 0
    samples: list[str] = field(default_factory=list)


def trials(store: Store) -> list[Trial]:
    """The trials of a lake, those of the latest ruleset first, there the busiest rule first."""
    found: dict[tuple[str, str], Trial] = {}
    for history in read_histories(store):
        for commit in history.commits:
            for rule, seen in commit.shadow.items():
                trial = found.setdefault((commit.ruleset, rule), Trial(rule, commit.ruleset))
                trial.count += seen.count
                trial.first_us = min(trial.first_us or commit.now_us, commit.now_us)
                trial.last_us = max(trial.last_us, commit.now_us)
                trial.samples = list(distinct([*trial.samples, *seen.samples], MAX_SAMPLES))
    latest: dict[str, int] = defaultdict(int)
    for trial in found.values():
        latest[trial.ruleset] = max(latest[trial.ruleset], trial.last_us)
    return sorted(found.values(), key=lambda t: (-latest[t.ruleset], t.ruleset, -t.count, t.rule))
