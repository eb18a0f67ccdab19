"""Retention policy: what a class means, and what a bad policy file is told."""

import time
from pathlib import Path

import pytest

from pipeline.errors import LogError, UsageError
from pipeline.lake.layout import Bucket
from pipeline.retention.policy import DAY_US, HOUR_US, load_policy, parse_policy

NOW_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


def test_the_built_in_classes_last_thirty_three_and_four_hundred_days() -> None:
    policy = load_policy()
    days = {name: kind.lifetime_us // DAY_US for name, kind in policy.classes.items()}
    assert days == {"default": 30, "debug": 3, "legal": 400}
    assert {name: kind.bucket for name, kind in policy.classes.items()} == {
        "default": "day",
        "debug": "hour",
        "legal": "day",
    }


def test_a_row_expires_at_the_start_of_the_day_its_deadline_falls_in() -> None:
    placed = load_policy().place(NOW_US, None, None, NOW_US)
    assert placed.retention_class == "default"
    assert placed.deadline_us == NOW_US + 30 * DAY_US
    assert placed.expires == "2026-03-31T00"
    assert not placed.refused and not placed.clock_bounded


def test_an_hour_class_has_hour_buckets() -> None:
    placed = load_policy().place(NOW_US + 59 * 60_000_000, None, "debug", NOW_US)
    assert placed.expires == "2026-03-04T12"


def test_a_leap_day_is_a_bucket_like_any_other() -> None:
    last_of_january_2028 = 1_832_889_600_000_000
    placed = load_policy().place(last_of_january_2028, None, None, last_of_january_2028)
    assert placed.expires == "2028-03-01T00"
    placed = load_policy().place(last_of_january_2028 - DAY_US, None, None, last_of_january_2028)
    assert placed.expires == "2028-02-29T00"


# In New York: the hour that is skipped, the hour that comes twice; and two ends of a year.
HOURS = ("2026-03-08T07", "2026-11-01T05", "2026-11-01T06", "2026-12-31T23", "2028-12-31T23")


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Chatham", "UTC"])
@pytest.mark.parametrize("hour", HOURS)
def test_an_hour_is_one_bucket_whatever_the_clocks_on_the_wall_do(
    hour: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        start_us = Bucket("events", "debug", hour).starts_us
        occurred_us = start_us - 3 * DAY_US
        for later_us in (0, HOUR_US - 1):
            placed = load_policy().place(occurred_us + later_us, None, "debug", occurred_us)
            assert (placed.deadline_us, placed.expires) == (start_us + later_us, hour)
        following = load_policy().place(occurred_us + HOUR_US, None, "debug", occurred_us)
        assert Bucket("events", "debug", following.expires).starts_us == start_us + HOUR_US
    finally:
        monkeypatch.undo()
        time.tzset()


def test_retention_counts_from_the_import_where_there_was_one() -> None:
    occurred_us = NOW_US - 900 * DAY_US
    assert load_policy().place(occurred_us, None, None, NOW_US).refused
    placed = load_policy().place(occurred_us, NOW_US, None, NOW_US)
    assert not placed.refused
    assert placed.deadline_us == NOW_US + 30 * DAY_US


def test_a_row_is_refused_from_the_moment_its_bucket_goes() -> None:
    policy = load_policy()
    goes_us = NOW_US + 3 * DAY_US  # a full hour
    assert policy.place(NOW_US + 1, None, "debug", goes_us).refused
    assert not policy.place(NOW_US + 1, None, "debug", goes_us - 1).refused


@pytest.mark.parametrize("requested", [None, "", "eternal", "../debug", "Debug"])
def test_a_class_the_policy_does_not_have_gets_the_default(requested: str | None) -> None:
    assert load_policy().place(NOW_US, None, requested, NOW_US).retention_class == "default"


def test_a_clock_within_a_day_ahead_is_believed_and_one_further_is_not() -> None:
    policy = load_policy()
    near = policy.place(NOW_US + DAY_US, None, None, NOW_US)
    assert near.deadline_us == NOW_US + 31 * DAY_US and not near.clock_bounded
    far = policy.place(NOW_US + DAY_US + 1, None, None, NOW_US)
    assert far.deadline_us == NOW_US + 30 * DAY_US and far.clock_bounded


@pytest.mark.parametrize("time_us", [-(2**63), -1, 0, 2**63 - 1, 10**40])
def test_no_clock_reading_overflows(time_us: int) -> None:
    placed = load_policy().place(time_us, None, "legal", NOW_US)
    assert placed.refused == (time_us <= 0)


def test_a_document_keeps_its_digest() -> None:
    policy = load_policy()
    again = parse_policy(policy.document)
    assert again == policy
    assert again.digest == policy.digest and len(policy.digest) == 64


def test_a_document_of_another_shape_is_an_error_of_the_log() -> None:
    with pytest.raises(LogError):
        parse_policy(b'{"default": "x"}')


def policy_text(kept: str, more: str = "", default: str = "kept") -> str:
    return f"default: {default}\nclasses:\n  kept: {{{kept}}}\n{more}"


GOOD = "lifetime: 30d, bucket: day"
BAD_FILES = {
    "default-names-no-class": (policy_text(GOOD, default="other"), ":1:"),
    "unknown-key": (policy_text(GOOD, "keep: 3\n"), ":4:"),
    "key-twice": ("default: kept\n" + policy_text(GOOD), ":2:"),
    "lifetime-without-unit": (policy_text("lifetime: 30, bucket: day"), ":3:"),
    "lifetime-zero": (policy_text("lifetime: 0d, bucket: day"), ":3:"),
    "lifetime-below-bucket": (policy_text("lifetime: 5h, bucket: day"), ":3:"),
    "lifetime-of-a-thousand-years": (policy_text("lifetime: 365250d, bucket: day"), ":3:"),
    "bucket-week": (policy_text("lifetime: 30d, bucket: week"), ":3:"),
    "class-name-with-slash": (policy_text(GOOD, "  a/b: {lifetime: 30d, bucket: day}\n"), ":4:"),
    "not-yaml": ("default: [\n", "not YAML"),
    "empty": ("", "mapping"),
}


@pytest.mark.parametrize(("text", "place"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_policy_file_is_refused_by_file_and_line(
    text: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "retention.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"retention\.yaml") as caught:
        load_policy(path)
    assert place in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_policy_that_the_documentation_shows_is_one(checkout: Path, tmp_path: Path) -> None:
    text = (checkout / "docs" / "retention.md").read_text()
    file = tmp_path / "retention.yaml"
    file.write_text(text.partition("```yaml\n")[2].partition("```")[0])
    policy = load_policy(file)
    assert set(policy.classes) == {"debug", "default", "legal", "secret"} and policy.rules


def test_a_policy_file_of_ones_own_is_used(tmp_path: Path) -> None:
    path = tmp_path / "retention.yaml"
    path.write_text("default: short\nclasses:\n  short: {lifetime: 72h, bucket: hour}\n")
    placed = load_policy(path).place(NOW_US, None, "debug", NOW_US)
    assert placed.retention_class == "short"
    assert placed.deadline_us == NOW_US + 72 * HOUR_US
