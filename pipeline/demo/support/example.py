"""The whole example: killed agents, replays, and the figures that come of them."""

import hashlib
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.demo.support.crashes import Bench, crash_table
from pipeline.demo.support.figures import POLICY, Lab
from pipeline.demo.support.services import Probabilities, running
from pipeline.emitter import Recording
from pipeline.replay.session import Rules
from redactors import KeyRing, load_ruleset
from schemas import Producer

RUNS: Final = 200
SEED: Final = 11
Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class Example:
    """What was found, with all that was set: the probabilities, the seed, the number of runs."""

    chances: Probabilities
    seed: int
    runs: int
    crash_table: dict[str, dict[str, Any]]
    figures: dict[str, Any]
    warning: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON output; `bounds` is half the width of the 95 % interval of each rate."""
        rates = {name: rate for name, rate in self.figures.items() if isinstance(rate, float)}
        bounds = {name: self.bound(rate) for name, rate in rates.items()}
        return {
            "crash_table": self.crash_table,
            "figures": self.figures,
            "inputs": {"probabilities": asdict(self.chances), "seed": self.seed, "runs": self.runs},
            "bounds": bounds,
            "warning": self.warning,
        }

    def bound(self, rate: float) -> float:
        """How far chance moves a rate among so many runs, either way, 19 times in 20."""
        return Z_95 * math.sqrt(rate * (1 - rate) / self.runs)


def run_example(
    seed: int = SEED,
    chances: Probabilities | None = None,
    runs: int = RUNS,
    say: Callable[[str], None] = lambda line: None,
) -> Example:
    """Runs everything on this machine, under a key made for it; leaves nothing behind.

    The same seed gives the same figures: the simulated model reads masks too.
    """
    chances = chances or Probabilities()
    keys, ruleset = _keys(seed), load_ruleset()
    rules, producer = Rules(ruleset, keys), Producer("support-agent", "1")
    with (
        tempfile.TemporaryDirectory(prefix="redactory-example-") as folder,
        running(chances, seed) as services,
    ):
        home = Path(folder)
        recording = Recording.of(producer, keys, ruleset, matching=POLICY, journals=home / "open")
        rules.adopt(recording.redactor)
        table = crash_table(Bench(services, recording, rules, home, seed), say)
        figures, third = Lab(services, recording, rules, seed, runs, say).measure()
        return Example(chances, seed, runs, table, figures, third.warning)


def _keys(seed: int) -> KeyRing:
    return KeyRing("example", {"example": hashlib.sha256(f"example {seed}".encode()).digest()})
