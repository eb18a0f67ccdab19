"""Kill it anywhere, freeze it anywhere: nothing is lost, doubled or left raw."""

from collections.abc import Callable
from pathlib import Path

import pytest
from crash.canaries import Canary, canaries
from crash.schedules import schedule
from crash.world import play

SHORT_SEEDS = (12, 31)


@pytest.fixture(scope="session")
def thousand() -> list[Canary]:
    return canaries(1000)


@pytest.mark.parametrize("seed", SHORT_SEEDS)
def test_killed_and_frozen_anywhere_every_offset_is_there_once_and_nothing_is_raw(
    seed: int,
    bootstrap: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
    thousand: list[Canary],
) -> None:
    world, verdict = play(schedule(seed, rounds=2), bootstrap, make_topic, tmp_path, thousand)
    assert verdict.is_good, verdict
    assert world.struck, "a fault came to pass"
