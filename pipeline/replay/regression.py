"""Recorded runs as a regression test: what came of each, and whether misses spoil the figure."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.replay.session import DONE, SAME, Replayed

MISS_RATE_MAX: Final = 0.1
_Z_95: Final = 1.96

Judge = Callable[[Replayed], str]


@dataclass(frozen=True, slots=True)
class Regression:
    """A set of replays; `verdicts` are the judge's, or why a replay stopped.

    Replays that stopped are misses: they stay in the denominator of every rate.
    """

    replayed: tuple[Replayed, ...]
    verdicts: tuple[str, ...]

    @property
    def misses(self) -> int:
        """How many replays did not go through."""
        return sum(each.outcome not in (SAME, DONE) for each in self.replayed)

    @property
    def miss_rate(self) -> float:
        """Misses among all."""
        return self.misses / len(self.replayed) if self.replayed else 0.0

    @property
    def warning(self) -> str:
        """What to say where the misses make the figures unrepresentative; "" where they do not.

        They do once they could move a rate by more than chance does: by more than half the width
        of the 95 % interval of a rate of one half, and at the most 10 %.
        """
        count = len(self.replayed)
        if not count:
            return ""
        allowed = min(MISS_RATE_MAX, _Z_95 * math.sqrt(0.25 / count))
        if self.miss_rate <= allowed:
            return ""
        return (
            f"{self.misses} of {count} replays asked for what was never recorded "
            f"({self.miss_rate:.0%}, at most {allowed:.0%} are harmless): the figures do not stand "
            "for all runs; record them again with this agent"
        )

    def rate(self, verdict: str) -> float:
        """How often a verdict was given, among all."""
        return self.verdicts.count(verdict) / len(self.verdicts) if self.verdicts else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return {
            "runs": len(self.replayed),
            "verdicts": dict(sorted(Counter(self.verdicts).items())),
            "misses": self.misses,
            "miss_rate": self.miss_rate,
            "warning": self.warning,
        }


def regression(replayed: Sequence[Replayed], judge: Judge | None = None) -> Regression:
    """The replays judged; without a judge the verdict is the outcome."""
    verdicts = tuple(
        judge(each) if judge and each.outcome in (SAME, DONE) else each.outcome for each in replayed
    )
    return Regression(tuple(replayed), verdicts)
