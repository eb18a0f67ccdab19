"""Fixtures for all tests: a real broker, topics of one's own, the shared sample runs."""

import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apicurio.registry import Apicurio
from hypothesis import settings

from pipeline import broker, faultpoints
from pipeline.kafka import ensure_topic
from pipeline.masking import Masker
from pipeline.retention.policy import load_policy
from redactors import KeyRing, Redactor, load_ruleset

CHECKOUT = Path(__file__).parents[1]

_TOPICS = itertools.count(1)

settings.register_profile("seeded", derandomize=True, database=None, deadline=None)
settings.load_profile("seeded")


def pytest_configure() -> None:
    """Lets a terminated test session stop its broker, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda number, frame: pytest.exit("terminated", 143))


@pytest.fixture(autouse=True)
def _no_faults_left() -> Iterator[None]:
    """What a test lets happen at a fault point ends with it."""
    yield
    faultpoints.install(None)


@pytest.fixture(scope="module")
def masker() -> Masker:
    """Masks under the built-in rules and policy and a key of its own."""
    return Masker(Redactor(load_ruleset(), KeyRing.generate()), load_policy())


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the source tree, for tests of the repository itself."""
    return CHECKOUT


@pytest.fixture(scope="session")
def broker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the broker of this test session has its data."""
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="session")
def bootstrap(broker_folder: Path, free_port: Callable[[], int]) -> Iterator[str]:
    """Where a real Kafka answers; one per test session, kept for all its tests."""
    running = broker.start(broker_folder, free_port(), print)
    yield running.bootstrap
    broker.stop(broker_folder)


@pytest.fixture(scope="session")
def registry(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]
) -> Iterator[Apicurio]:
    """A real schema registry; one per test session, kept for all its tests."""
    running = Apicurio.start(free_port(), tmp_path_factory.mktemp("registry") / "registry.log")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Gives a port of the loopback interface that nobody listens on."""
    return broker.free_port


@pytest.fixture
def make_topic(bootstrap: str, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics that no other test has: `make_topic(partitions=4, **settings)` gives a name."""
    test = re.sub(r"[^A-Za-z0-9_-]", "-", request.node.name)[:100]

    def make(partitions: int = 1, **topic_settings: str) -> str:
        name = f"{test}-{next(_TOPICS)}"
        named = {key.replace("_", "."): value for key, value in topic_settings.items()}
        assert ensure_topic(bootstrap, name, partitions=partitions, settings=named)
        return name

    return make


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the shared sample runs and cases; it is no part of the project."""
    folder = Path(os.environ.get("REDACTORY_SHARED", CHECKOUT.parent / "shared"))
    if not (folder / "samples").is_dir():
        pytest.skip(f"no shared samples in {folder} (REDACTORY_SHARED names another folder)")
    return folder
