"""What happens to the workers in one run of the fault harness: chosen by a seed, nothing else."""

import random
from dataclasses import dataclass
from typing import Literal, get_args

from pipeline.faultpoints import POINTS

Action = Literal["kill", "freeze", "step", "fill", "lock"]

ACTIONS: tuple[Action, ...] = get_args(Action)

INSTANCES = 2

CLOCK_STEPS_S = (-86_400.0, -3600.0, 3600.0, 86_400.0, 40 * 86_400.0)
"""The last one is longer than the default retention: every event is refused then."""

BROKER_EVENTS: tuple[Literal["", "kill", "cut"], ...] = ("", "", "", "", "", "", "kill", "cut")

_MOST = {"read": 6, "redact": 150, "claim": 2}
"""How often a worker surely passes a point's step in one life; every other step: 8 times."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls a worker at its `occurrence`-th passing of `point` (from 1).

    It is killed; or frozen; or its clock makes a step of `step_s`; or from then on it finds the
    lake's disk full ("fill"), or read-only ("lock").
    """

    point: str
    occurrence: int
    action: Action
    step_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """One life of each instance (None: nothing happens to it), both at the same time.

    `successor` befalls the worker that takes over from a frozen one; `clocks_s` are how far the
    clocks of the two are off from the start.  The broker may be killed and started again meanwhile,
    or `cut` off for a while; with `sweep` all buckets are removed before a frozen worker wakes.
    """

    faults: tuple[Fault | None, ...]
    successor: Fault | None
    clocks_s: tuple[float, ...]
    broker: Literal["", "kill", "cut"] = ""
    sweep: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int
    rounds: tuple[Round, ...]


def schedule(seed: int, rounds: int) -> Schedule:
    """The schedule of a seed; consecutive seeds kill, then freeze, at one point after another."""
    rng = random.Random(seed)
    first: Action = "freeze" if seed // len(POINTS) % 2 else "kill"
    faults = [_fault(rng, POINTS[seed % len(POINTS)], first)]
    faults += [_fault(rng, rng.choice(POINTS), _action(rng)) for _ in range(rounds - 1)]
    return Schedule(seed, tuple(_round(rng, fault) for fault in faults))


def _round(rng: random.Random, fault: Fault) -> Round:
    beside = _fault(rng, rng.choice(POINTS), "kill") if rng.random() < 0.5 else None
    successor = _fault(rng, rng.choice(POINTS), "kill") if rng.random() < 0.3 else None
    faults: tuple[Fault | None, ...] = (fault, beside)
    clocks_s = tuple(rng.choice([0.0, 0.0, *CLOCK_STEPS_S]) for _ in faults)
    faults = faults if rng.random() < 0.5 else faults[::-1]
    broker = rng.choice(BROKER_EVENTS)
    return Round(faults, successor, clocks_s, broker, sweep=rng.random() < 0.4)


def _action(rng: random.Random) -> Action:
    return rng.choice(["kill", *ACTIONS])


def _fault(rng: random.Random, point: str, action: Action) -> Fault:
    occurrence = rng.randint(1, _MOST.get(point.partition(".")[0], 8))
    return Fault(point, occurrence, action, rng.choice(CLOCK_STEPS_S))
