"""Kill it anywhere, freeze it anywhere: nothing is lost, doubled or left raw."""

import os
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash.canaries import Canary, Search, canaries
from crash.kafka import Kafka
from crash.lives import KEYS, Life
from crash.matrix import ALL, note, table
from crash.schedules import schedule
from crash.world import World, play
from running import until

from pipeline.faultpoints import POINTS
from pipeline.opening import check_start
from redactors import load_or_create_keys

MakeTopic = Callable[..., str]

SHORT_SEEDS = (91, 95)

SEEDS = range(*map(int, os.environ.get("CRASH_SEEDS", f"0-{ALL}").split("-")))
"""Those of the full matrix, for example CRASH_SEEDS=20-30 without the last."""


@pytest.fixture(scope="module")
def thousand() -> list[Canary]:
    return canaries(1000)


@pytest.fixture(scope="module")
def matrix(checkout: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The file that takes a line of every schedule; at the end the table is made and printed."""
    lines = checkout / "benchmarks" / "results" / "crash-matrix.jsonl"
    yield lines
    text = table(lines)
    lines.with_suffix(".md").write_text(text)
    request.config.get_terminal_writer().write(f"\n{text}")


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key ring of all lives."""
    path = tmp_path_factory.mktemp("lives") / "keys.json"
    load_or_create_keys(path)
    os.environ[KEYS] = str(path)
    return path


@pytest.fixture
def kafka(broker_folder: Path, bootstrap: str) -> Kafka:
    return Kafka(broker_folder, bootstrap)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SHORT_SEEDS)
def test_killed_and_frozen_every_offset_is_there_once_and_nothing_is_raw(
    seed: int,
    kafka: Kafka,
    make_topic: MakeTopic,
    tmp_path: Path,
    keys: Path,
    thousand: list[Canary],
) -> None:
    world, verdict = play(schedule(seed, rounds=2), kafka, make_topic, tmp_path, keys, thousand)
    assert verdict.is_good, verdict
    assert world.struck, "a fault came to pass"


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_full_matrix(
    seed: int,
    kafka: Kafka,
    make_topic: MakeTopic,
    tmp_path: Path,
    keys: Path,
    thousand: list[Canary],
    matrix: Path,
) -> None:
    world, verdict = play(schedule(seed, rounds=4), kafka, make_topic, tmp_path, keys, thousand)
    note(matrix, seed, world, verdict)
    assert verdict.is_good, verdict
    assert verdict.canaries >= len(thousand), "every canary was sent"


def test_the_harness_knows_every_point_an_ingest_passes(checkout: Path) -> None:
    named = re.compile(r'\b(?:fault_)?at\("([a-z-]+\.[a-z]+)"\)')
    found = {
        point
        for path in (checkout / "pipeline").rglob("*.py")
        for point in named.findall(path.read_text())
    }
    # Rewriters pass points of their own; the model of the commit protocol stops them anywhere.
    rewriters = ("receipt.", "removal-intent.", "remove.", "rewrite-")
    assert {point for point in found if not point.startswith(rewriters)} == set(POINTS)


def test_the_search_finds_a_canary_in_every_dress(tmp_path: Path, thousand: list[Canary]) -> None:
    import base64

    import pyarrow as pa
    import pyarrow.parquet as pq

    secret = thousand[-1].secret
    search = Search(canary.secret for canary in thousand)
    raw = secret.encode()
    for dress in (
        raw,
        base64.b64encode(b"x" + raw + b"yz"),
        raw.hex().encode(),
        "".join(f"%{byte:02x}" for byte in raw).encode(),
    ):
        assert search.in_bytes(b"before " + dress + b" after") == {secret}
    pq.write_table(pa.table({"body": [f"the {secret}"] * 50}), tmp_path / "a.parquet")
    assert search.in_folders(tmp_path) == {secret: tmp_path / "a.parquet"}
    assert search.in_bytes(b"nothing to see") == set()


def test_a_worker_that_crashes_leaves_no_core_file(
    kafka: Kafka, make_topic: MakeTopic, tmp_path: Path, keys: Path
) -> None:
    world = World(kafka, make_topic(partitions=2), tmp_path, keys)
    check_start(world.config(0))
    life = world.begin(0)
    try:
        until(lambda: _core_limit(life) == (0, 0), "it reads, and may write no core file")
    finally:
        life.kill()


def _core_limit(life: Life) -> tuple[int, int]:
    return resource.prlimit(life.process.pid or 0, resource.RLIMIT_CORE)
