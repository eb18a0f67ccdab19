"""No row outlives its deadline, none goes earlier than one bucket before it."""

from datetime import UTC, datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.retention.policy import DAY_US, Policy, load_policy

POLICY = load_policy()
CLASSES = st.sampled_from([*POLICY.classes, None, "unknown"])
NOW_US = st.integers(min_value=0, max_value=4_102_444_800_000_000)  # until 2100
TIMES_US = st.integers(min_value=-(2**63), max_value=2**63 - 1)

YEAR_END_US = 1_798_761_599_999_999  # 2026-12-31T23:59:59.999999Z
LEAP_DAY_US = 1_835_438_400_000_000  # 2028-02-29T12:00Z


def bucket_us(expires: str) -> int:
    start = datetime.strptime(expires, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    return round(start.timestamp()) * 1_000_000


@settings(derandomize=True, max_examples=300)
@given(TIMES_US, st.none() | TIMES_US, CLASSES, NOW_US)
@example(YEAR_END_US, None, "debug", YEAR_END_US)
@example(LEAP_DAY_US, None, "legal", LEAP_DAY_US)
def test_a_bucket_goes_at_most_one_bucket_before_the_deadline_of_each_row(
    occurred_at_us: int, captured_at_us: int | None, requested: str | None, now_us: int
) -> None:
    placed = POLICY.place(occurred_at_us, captured_at_us, requested, now_us)
    size_us = POLICY.classes[placed.retention_class].bucket_us
    start_us = bucket_us(placed.expires)
    assert start_us <= placed.deadline_us < start_us + size_us
    assert start_us % size_us == 0
    assert placed.refused == (start_us <= now_us)


@settings(derandomize=True, max_examples=200)
@given(TIMES_US, st.none() | TIMES_US, CLASSES, NOW_US)
def test_no_clock_buys_a_row_more_than_its_lifetime_and_a_day(
    occurred_at_us: int, captured_at_us: int | None, requested: str | None, now_us: int
) -> None:
    placed = POLICY.place(occurred_at_us, captured_at_us, requested, now_us)
    lifetime_us = POLICY.classes[placed.retention_class].lifetime_us
    assert placed.deadline_us <= now_us + DAY_US + lifetime_us


@settings(derandomize=True, max_examples=100)
@given(st.integers(1, 400), st.sampled_from(["hour", "day"]))
def test_a_policy_survives_its_document(days: int, bucket: str) -> None:
    policy = Policy.model_validate(
        {"default": "a", "classes": {"a": {"lifetime": f"{days}d", "bucket": bucket}}}
    )
    again = Policy.model_validate_json(policy.document)
    assert again == policy and again.digest == policy.digest
