"""What a producer declares is kept where it is true, moved where we moved it, and else dropped."""

import json
from typing import Any

import pytest

from pipeline.declared import carry_declared
from redactors import Redaction
from schemas import DeclaredRedaction


def _claim(path: str = "/text", **fields: Any) -> DeclaredRedaction:
    given = {"rule": "email", "label": "EMAIL", "action": "mask"} | fields
    return DeclaredRedaction(path=path, **given)


def _carry(
    claim: DeclaredRedaction, before: Any, after: Any = None, *own: Redaction
) -> tuple[Redaction, ...]:
    stored = before if after is None else after
    return carry_declared(
        (claim,), json.dumps(before), json.dumps(stored), own, {}, lambda text: "@" not in text
    )


def test_a_true_claim_is_kept_and_says_who_made_it() -> None:
    kept = _carry(_claim(span_start=3, span_end=10), {"text": "to [EMAIL]."})
    assert kept == (Redaction("/text", "email", "EMAIL", "mask", 3, 10, by="emitter"),)


def test_a_claim_moves_with_the_mask_that_our_own_masks_moved() -> None:
    own = Redaction("/text", "email", "EMAIL", "mask", 5, 12)
    claim = _claim(span_start=22, span_end=29)
    kept = _carry(
        claim, {"text": "From a@example.com to [EMAIL]"}, {"text": "From [EMAIL] to [EMAIL]"}, own
    )
    assert [(r.span_start, r.span_end) for r in kept] == [(16, 23)]


def test_the_second_of_two_equal_masks_stays_the_second() -> None:
    claim = _claim(span_start=12, span_end=19)
    kept = _carry(claim, {"text": "[EMAIL] and [EMAIL]"})
    assert [(r.span_start, r.span_end) for r in kept] == [(12, 19)]


@pytest.mark.parametrize(
    ("claim", "body"),
    [
        (_claim(), {"text": "nothing is masked here"}),
        (_claim(span_start=0, span_end=8), {"text": "[SECRET]"}),
        (_claim(path="/other"), {"text": "[EMAIL]"}),
        (_claim(path="/text/0"), {"text": "[EMAIL]"}),
        (_claim(rule="a rule of p@example.com"), {"text": "[EMAIL]"}),
        (_claim(action="exfiltrate"), {"text": "[EMAIL]"}),
        (_claim(path="/p@example.com"), {"p@example.com": "[EMAIL]"}),
        (_claim(layers=("base64",)), {"text": "[EMAIL]"}),
        (_claim(path="text"), {"text": "[EMAIL]"}),
        (_claim(path="/99999999999999999999"), ["[EMAIL]"]),
    ],
)
def test_a_claim_that_is_not_true_or_not_in_our_words_is_dropped(
    claim: DeclaredRedaction, body: Any
) -> None:
    assert _carry(claim, body) == ()


def test_claims_about_a_body_that_is_nested_too_deeply_are_dropped() -> None:
    deep = "[" * 5000 + "]" * 5000
    assert carry_declared((_claim(path=""),), deep, deep, (), {}, lambda text: True) == ()


def test_a_pointer_reaches_lists_and_escaped_names() -> None:
    assert _carry(_claim(path="/a~1b/0"), {"a/b": ["[EMAIL]"]})[0].path == "/a~1b/0"
