"""What is masked twice, under other rules the second time, is still what came but for what its row
declares."""

import json
from dataclasses import asdict
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from redaction_samples import KEYS, aws_key, email, field, rule, small_ruleset

from pipeline.lake.proof.compare import body_equals
from pipeline.review.rescrub.merging import merged
from redactors import Redactor, Ruleset
from redactors.engine import labels_of

OLD = small_ruleset()
NEW = small_ruleset(
    rule("ours", "ours_[a-z]{8}", label="OURS"), field("badge", "badge", "note", label="BADGE")
)

PIECES = st.sampled_from(
    [
        "ours_abcdefgh",
        "ours_qqqqqqqq",
        aws_key(),
        aws_key(2),
        email(),
        "é",
        '"',
        "\\",
        " see ",
        "\n",
    ]
)
TEXTS = st.lists(PIECES, max_size=6).map(" ".join)
NAMES = st.sampled_from(["a", "note", "badge", "firstname", "ours_keykeyke", aws_key(3), "b/c~d"])
VALUES = st.recursive(
    TEXTS | st.integers(0, 99),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES, inner, max_size=3)
        # A number that is masked in a document in a string gets quotes outside its span.
        | st.dictionaries(NAMES, TEXTS, max_size=2).map(json.dumps)
    ),
    max_leaves=12,
)


@cache
def redactors() -> tuple[Redactor, Redactor]:
    return Redactor(OLD, KEYS), again(NEW)


def again(ruleset: Ruleset) -> Redactor:
    return Redactor(ruleset, KEYS, labels=labels_of(OLD))


@given(st.dictionaries(NAMES, VALUES, max_size=4))
@settings(max_examples=150, deadline=None)
def test_the_declarations_of_both_times_account_for_every_change(body: dict[str, Any]) -> None:
    old, new = redactors()
    came = json.dumps(body, ensure_ascii=False)
    first = old.redact_json(came)
    second = new.redact_json(first.text)
    declared = merged([asdict(each) for each in first.redactions], first.text, second.text,
                      second.redactions)  # fmt: skip
    every = [*declared, *map(asdict, second.redactions)]
    assert body_equals(second.text, came, every)
    assert "ours_" not in second.text and aws_key() not in second.text
    assert new.redact_json(second.text).redactions == ()
    stored = json.loads(second.text)
    for each in declared:
        if each["span_start"] is not None and not each["layers"]:
            mask = value_at(stored, each["path"])[each["span_start"] : each["span_end"]]
            assert mask.startswith(f"[{each['label']}") and mask.endswith("]")


def value_at(value: Any, path: str) -> Any:
    for step in path.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value
