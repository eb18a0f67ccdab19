"""More hands: independent instances, and a Dask cluster; killed in the middle, nothing is lost."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash.canaries import Search
from distributed import LocalCluster
from running import kill, query, redactory, start, until
from scale import commits, holds_each_once, produce

from redactors import Redactor, load_ruleset

PARTITIONS = 4


@pytest.fixture(scope="module", autouse=True)
def _compiled_rules() -> None:
    """Compiles the rules once: workers find them in the cache instead of all doing the same."""
    Redactor(load_ruleset(), None)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_instances_share_the_partitions_by_ordinal_and_one_that_was_killed_is_rescheduled(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    topic, lake = make_topic(partitions=PARTITIONS), tmp_path / "lake"
    produce(bootstrap, topic, PARTITIONS, range(500))
    words = ("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake, "--keys", keys)
    words += ("--slice-records", "50", "--flush-interval-s", "0.5")
    instances = [start(*words, "--instance", f"{ordinal}/2") for ordinal in range(2)]
    try:
        until(lambda: commits(lake, topic) >= 4, "the first commits", 120)
        kill(instances[0])
        instances[0] = start(*words, "--instance", "0/2")
        until(
            lambda: query(lake, "SELECT count(*) AS n FROM events")[0]["n"] == 2000, "the rest", 120
        )
        for instance in instances:
            instance.send_signal(signal.SIGTERM)
            _, err = instance.communicate(timeout=60)
            assert instance.returncode == 0, err
    finally:
        for instance in instances:
            if instance.poll() is None:
                kill(instance)
    holds_each_once(lake, keys, 2000)


def test_an_instance_that_is_none_of_its_number_is_refused(tmp_path: Path) -> None:
    words = ("--bootstrap", "127.0.0.1:1", "--topic", "t", "--lake", tmp_path / "lake")
    for wrong in ("2/2", "1", "-1/2", "a/b"):
        done = redactory("ingest", *words, "--instance", wrong)
        assert done.returncode == 2
        assert "--instance" in done.stderr


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Two worker processes that spill and log into the test's folder."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=tmp_path / "dask",
    ) as running:
        yield running


def test_a_dask_cluster_ingests_and_a_worker_killed_in_the_middle_costs_nothing(
    bootstrap: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
    keys: Path,
    cluster: LocalCluster,
) -> None:
    topic, lake = make_topic(partitions=PARTITIONS), tmp_path / "lake"
    secret = "-".join(["green", "heron", "5519"])
    produce(bootstrap, topic, PARTITIONS, range(600), secret)
    running = start(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", lake, "--keys", keys),
        *("--until-caught-up", "--slice-records", "50", "--json", "--"),
        *("--runner=DaskRunner", "--dask_partition_size=1"),
        f"--dask_client_address={cluster.scheduler_address}",
        TMPDIR=str(tmp_path),
    )
    until(lambda: commits(lake, topic) >= 3, "the first commits", 120)
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
    assert commits(lake, topic) < 600 * PARTITIONS / 50, "it was killed in the middle"
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert json.loads(out)["counts"]["events"] == 600 * PARTITIONS
    holds_each_once(lake, keys, 600 * PARTITIONS)
    assert Search([secret]).in_folders(tmp_path) == {}
    assert secret not in out + err


def test_a_runner_that_ends_needs_a_run_that_ends(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, keys: Path
) -> None:
    done = redactory(
        *("ingest", "--bootstrap", bootstrap, "--topic", make_topic(), "--keys", keys),
        *("--lake", tmp_path / "lake", "--", "--runner=DaskRunner"),
    )
    assert done.returncode == 3
    assert "--until-caught-up" in done.stderr
