"""How a policy chooses a class, and what it declares about the time it counts from."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.retention.policy import DAY_US, Placement, Policy, load_policy, parse_policy

NOW_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
ALICE = "[SUBJECT:k1:" + "A" * 16 + "]"


def policy(**fields: Any) -> Policy:
    classes = {
        "short": {"lifetime": "24h", "bucket": "hour"},
        "usual": {"lifetime": "30d", "bucket": "day"},
        "long": {"lifetime": "400d", "bucket": "day"},
    }
    return Policy.model_validate({"default": "usual", "classes": classes} | fields)


def place(chosen: Policy, requested: str | None = None, **about: Any) -> Placement:
    return chosen.place(NOW_US, None, requested, NOW_US, **about)


@pytest.mark.parametrize(
    ("condition", "event"),
    [
        ({"kinds": ["model.requested"]}, {"kind": "model.requested"}),
        ({"producers": ["nightly"]}, {"producer": "nightly"}),
        ({"subjects": [ALICE]}, {"subjects": ["[SUBJECT:k1:other]", ALICE]}),
    ],
    ids=["kind", "producer", "subject"],
)
def test_a_rule_chooses_by_what_the_event_is(
    condition: dict[str, Any], event: dict[str, Any]
) -> None:
    ruled = policy(rules=[condition | {"class": "short"}])
    assert place(ruled, **event).retention_class == "short"
    assert place(ruled, "long", **event).retention_class == "short"
    assert place(ruled).retention_class == "usual"


def test_a_rule_can_answer_a_request() -> None:
    ruled = policy(rules=[{"requested": ["forever"], "class": "long"}], ceiling="30d")
    assert place(ruled, "forever").retention_class == "long"


def test_every_condition_of_a_rule_must_hold_and_the_first_rule_wins() -> None:
    ruled = policy(
        rules=[
            {"kinds": ["error"], "producers": ["nightly"], "class": "long"},
            {"kinds": ["error"], "class": "short"},
        ]
    )
    assert place(ruled, kind="error", producer="nightly").retention_class == "long"
    assert place(ruled, kind="error", producer="other").retention_class == "short"


def test_no_event_gets_more_than_the_ceiling_by_asking() -> None:
    capped = policy(ceiling="30d")
    assert place(capped, "long").retention_class == "usual"
    assert place(capped, "short").retention_class == "short"


@pytest.mark.parametrize(
    ("occurred_at_us", "captured_at_us", "counted_from"),
    [
        (NOW_US, None, "occurred_at"),
        (NOW_US - 900 * DAY_US, NOW_US, "captured_at"),
        (NOW_US + 2 * DAY_US, None, "ingested_at"),
        (NOW_US, NOW_US + 2 * DAY_US, "ingested_at"),
        (-1, None, "epoch"),
    ],
)
def test_a_row_says_which_time_its_deadline_counts_from(
    occurred_at_us: int, captured_at_us: int | None, counted_from: str
) -> None:
    placed = policy().place(occurred_at_us, captured_at_us, None, NOW_US)
    assert placed.counted_from == counted_from
    assert placed.clock_bounded == (counted_from in ("ingested_at", "epoch"))


def test_a_field_left_out_and_its_default_are_one_policy() -> None:
    classes = {"usual": {"lifetime": "30d", "bucket": "day", "action": "delete", "purposes": []}}
    said = Policy.model_validate({"default": "usual", "classes": classes, "rules": []})
    bare = {"usual": {"lifetime": "30d", "bucket": "day"}}
    assert said.digest == Policy.model_validate({"default": "usual", "classes": bare}).digest


def test_a_policy_with_everything_survives_its_document() -> None:
    classes = {
        "usual": {
            "lifetime": "30d",
            "bucket": "day",
            "action": "seal-then-shred",
            "owner": "legal team",
            "purposes": ["incident", "audit"],
        }
    }
    rules = [{"subjects": [ALICE], "kinds": ["error"], "class": "usual"}]
    whole = policy(default="usual", classes=classes, rules=rules, ceiling="30d")
    again = parse_policy(whole.document)
    assert again == whole and again.digest == whole.digest


def test_a_row_of_a_class_that_is_to_be_sealed_says_so() -> None:
    classes = {"usual": {"lifetime": "30d", "bucket": "day", "action": "seal-then-shred"}}
    assert place(policy(classes=classes)).sealed
    assert not place(policy()).sealed


BAD_RULES = {
    "no-condition": "{class: usual}",
    "class-unknown": "{kinds: [error], class: other}",
    "condition-unknown": "{kind: [error], class: usual}",
    "person-named": "{subjects: [alice@example.com], class: usual}",
    "kinds-no-list": "{kinds: error, class: usual}",
}


@pytest.mark.parametrize("rule", BAD_RULES.values(), ids=BAD_RULES.keys())
def test_a_bad_rule_is_refused_by_file_and_line(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "retention.yaml"
    path.write_text(
        "default: usual\nclasses:\n  usual: {lifetime: 30d, bucket: day}\nrules:\n  - " + rule
    )
    with pytest.raises(UsageError, match=r"retention\.yaml:[145]:") as caught:
        load_policy(path)
    assert "alice" not in str(caught.value)
