"""Partitions are shared out once, however many instances and workers there are."""

from itertools import product

import pytest

from pipeline.config import IngestConfig, parse_instance
from pipeline.errors import UsageError


def _instance(ordinal: int, of: int) -> IngestConfig:
    return IngestConfig("broker", "t", "lake", instance=ordinal, instances=of)


def test_every_partition_has_one_worker_though_instances_have_different_numbers_of_them() -> None:
    for of, workers in product(range(1, 5), ([1, 1, 1, 1], [1, 2, 3, 4], [5, 1, 2, 1])):
        shares = [
            _instance(ordinal, of).share(index, workers[ordinal])
            for ordinal in range(of)
            for index in range(workers[ordinal])
        ]
        for partition in range(70):
            assert sum(share.takes(partition) for share in shares) == 1, (of, workers, partition)


def test_a_worker_takes_only_partitions_of_its_instance() -> None:
    for ordinal, index, partition in product(range(3), range(2), range(60)):
        if _instance(ordinal, 3).share(index, 2).takes(partition):
            assert _instance(ordinal, 3).takes(partition)


def test_instances_count_from_0() -> None:
    assert parse_instance("0/1") == (0, 1)
    assert parse_instance("2/3") == (2, 3)


@pytest.mark.parametrize("wrong", ["3/3", "0/0", "1", "-1/2", "a/b", "", "1/2/3", "1.0/2"])
def test_what_is_no_instance_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        parse_instance(wrong)
