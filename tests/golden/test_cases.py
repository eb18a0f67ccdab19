"""Inputs that broke other redactors, each with the right behaviour, under the built-in ruleset."""

import json
from functools import cache
from typing import Any

import pytest
from redaction_samples import KEYS
from shared_cases import CASES_FILE, cases

from redactors import Redacted, Redactor, load_ruleset


@cache
def redactor() -> Redactor:
    return Redactor(load_ruleset(), KEYS)


def redact(event: Any) -> Redacted:
    if isinstance(event, str):
        return redactor().redact_text(event)
    return redactor().redact_json(json.dumps(event, separators=(",", ":"), ensure_ascii=False))


def test_the_shared_cases_are_here() -> None:
    if not CASES_FILE.exists():
        pytest.skip("the shared cases are not beside this checkout (REDACTORY_SHARED)")
    assert cases()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_a_case_that_broke_others_is_right(case: dict[str, Any]) -> None:
    redacted = redact(case["event"])
    text = redacted.text
    # Bytes of the output as they are, and as a reader of its strings sees them.
    readings = [text, json.dumps(text), json.dumps(text)[1:-1]]
    assert not [gone for gone in case["gone"] if gone in text]
    assert not [kept for kept in case["kept"] if not any(kept in r for r in readings)]
    assert bool(redacted.redactions) == bool(case["gone"])
    if not isinstance(case["event"], str):
        json.loads(text)
        assert redact(json.loads(text)).text == text
