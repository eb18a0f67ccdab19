"""Which settings of a raw topic are in bounds."""

import pytest

from pipeline.retention.policy import Policy
from pipeline.retention.topic import find_drift

HOUR_MS = 3_600_000
POLICY = Policy.model_validate(
    {
        "default": "long",
        "classes": {
            "long": {"lifetime": "30d", "bucket": "day"},
            "short": {"lifetime": "24h", "bucket": "hour"},
        },
    }
)


def drift(**settings: int | str) -> list[tuple[str, str]]:
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    defaults = {
        "cleanup.policy": "delete",
        "retention.ms": str(20 * HOUR_MS),
        "segment.ms": str(4 * HOUR_MS),
    }
    return [(each.setting, each.wanted) for each in find_drift(defaults | named, POLICY)]


def test_retention_and_segment_together_must_not_exceed_the_shortest_class() -> None:
    assert drift() == []
    assert drift(retention_ms=20 * HOUR_MS + 1) == [("retention.ms", str(20 * HOUR_MS))]
    assert drift(retention_ms=HOUR_MS, segment_ms=24 * HOUR_MS) == [
        ("segment.ms", str(6 * HOUR_MS))
    ]


@pytest.mark.parametrize("retention_ms", [-1, 7 * 24 * HOUR_MS])
def test_endless_or_long_retention_is_cut_to_what_the_segment_leaves(retention_ms: int) -> None:
    assert drift(retention_ms=retention_ms) == [("retention.ms", str(20 * HOUR_MS))]


@pytest.mark.parametrize("cleanup", ["compact", "compact,delete"])
def test_compaction_is_never_in_bounds(cleanup: str) -> None:
    assert drift(cleanup_policy=cleanup) == [("cleanup.policy", "delete")]


def test_what_is_wanted_is_in_bounds() -> None:
    wanted = drift(retention_ms=-1, segment_ms=100 * HOUR_MS, cleanup_policy="compact")
    assert drift(**{name.replace(".", "_"): value for name, value in wanted}) == []
