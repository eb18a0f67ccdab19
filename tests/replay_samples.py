"""Short runs for tests of replay: an agent, its recording, and keys."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipeline.emitter import MatchingPolicy, Recording, World
from pipeline.replay.record import RecordedRun, recorded_run
from pipeline.replay.session import Kept, Player, Rules
from redactors import KeyRing, Redactor, load_ruleset
from schemas import Producer, RunEvent

NOW_US = 1_790_000_000_000_000
PRODUCER = Producer("test-agent", "1")
RULESET = load_ruleset()
KEYS = KeyRing.generate()
REDACTOR = Redactor(RULESET, KEYS, by="emitter")
RULES = Rules(RULESET, KEYS)

Agent = Callable[[World, Any], Any]


def recording(journals: Path | None = None, **options: Any) -> Recording:
    """A recording under the tests' keys; the rules are compiled once for all tests."""
    return Recording(REDACTOR, KEYS, PRODUCER, journals=journals, **options)


def record(agent: Agent, task: Any = None, run_id: str = "run-1") -> RecordedRun:
    """What an agent does, live, as a record."""
    kept = Kept()
    with recording().run(task, kept, run_id=run_id) as world:
        agent(world, task)
    return recorded_run(kept.events)


def player(policy: MatchingPolicy | None = None, now_us: int = NOW_US) -> Player:
    """Replays in this process."""
    return Player(RULES, policy or MatchingPolicy(), now_us)


def bodies(events: Iterable[RunEvent]) -> list[tuple[str, str | None, str]]:
    """What events say, without ids and times."""
    return [(event.kind_name or event.kind, event.name, event.body) for event in events]


def refuse(*_: Any) -> Any:
    """Stands for a live call that must not be made."""
    raise AssertionError("a live call was made")
