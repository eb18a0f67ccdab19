"""Explanations: right for inputs that broke others, and for a near miss of every validator."""

import json
import string
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from redaction_samples import KEYS, aws_key, card, email, field, password, rule, small_ruleset
from shared_cases import cases

from redactors import Redactor, load_ruleset
from redactors.compiled import matcher_of
from redactors.explaining import Explainer, Outcome
from redactors.ruleset import Allow, Keep, Rule
from redactors.templates import expand
from redactors.validators import VALIDATORS, validator

# By case: what fires, and what else is said of a rule.
EXPECTED: dict[str, tuple[set[str], dict[str, str]]] = {
    "card-as-number": ({"card-number"}, {"named-card": "lost-overlap"}),
    "header-in-traceback": ({"field-authorization"}, {"bearer-token": "lost-overlap"}),
    "field-inside-json-text": ({"field-secret"}, {}),
    "pem-on-one-line": ({"private-key-pem"}, {"private-key-without-footer": "lost-overlap"}),
    "pem-with-escaped-newlines": ({"private-key-pem"}, {}),
    "marker-does-not-echo": ({"url-userinfo"}, {"email": "lost-overlap"}),
    "banner-is-not-a-secret": (set(), {}),
    "escaped-quote-in-password": ({"field-password"}, {}),
    "emoji-before-the-span": ({"named-secret"}, {"aws-access-key-id": "lost-overlap"}),
    "numeric-trace-id": (set(), {"card-number": "failed-validator"}),
    "uuid-is-not-a-phone": (set(), {"named-secret": "excused"}),
    "epoch-ms-passes-luhn": (set(), {}),
    "structural-words": (set(), {}),
    "field-rule-is-for-keys": (set(), {}),
    "ssn-serials": ({"us-ssn"}, {}),
    "deep-nesting": ({"github-token"}, {}),
    "secret-as-key": ({"github-token", "email"}, {}),
    "header-list": ({"field-secret"}, {}),
    "seen-in-a-field-then-in-prose": ({"field-secret"}, {}),
}


@cache
def explainer() -> Explainer:
    return Explainer(load_ruleset(), KEYS)


def verdicts(outcomes: list[Outcome]) -> set[tuple[str, str]]:
    return {(outcome.rule, outcome.verdict) for outcome in outcomes}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_a_case_that_broke_others_is_explained(case: dict[str, Any]) -> None:
    event = case["event"]
    is_json = not isinstance(event, str)
    payload = json.dumps(event, separators=(",", ":"), ensure_ascii=False) if is_json else event
    outcomes = explainer().explain(payload, is_json=is_json)
    fires, others = EXPECTED[case["id"]]
    assert {o.rule for o in outcomes if o.verdict == "fired"} == fires
    assert verdicts(outcomes) >= set(others.items())
    assert sum(o.count for o in outcomes if o.verdict == "fired") == _changes(payload, is_json)
    assert not [gone for gone in case["gone"] if gone in repr(outcomes)]


def _changes(payload: str, is_json: bool) -> int:
    """How many redactions there are without an explanation."""
    redact = redactor().redact_json if is_json else redactor().redact_text
    return len(redact(payload).redactions)


@cache
def redactor() -> Redactor:
    return Redactor(load_ruleset(), KEYS)


def near_misses() -> Iterator[tuple[str, str]]:
    """A value that each validator refuses, one character from one that it takes if it has one."""
    taken: dict[str, str] = {}
    for each in load_ruleset().rules:
        if each.validator is not None:
            taken.setdefault(each.validator, _first_value(each))
    for each in load_ruleset().fields:
        if each.validator is not None and each.matches:
            taken.setdefault(each.validator, expand(each.matches[0]).partition(": ")[2])
    for name in VALIDATORS:
        value = taken.get(name, "1234567890")
        refused = [miss for miss in _neighbours(value) if not validator(name)(miss)]
        yield name, refused[0] if refused else "<>"


def _first_value(declared: Rule) -> str:
    matcher, data = matcher_of(declared), expand(declared.matches[0]).encode()
    for found in matcher.exact.finditer(data):
        if matcher.accepts(found[declared.group] or b""):
            return bytes(found[declared.group]).decode()
    raise AssertionError(declared.id)


def _neighbours(value: str) -> Iterator[str]:
    for at in reversed(range(len(value))):
        for kind in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
            if value[at] in kind:
                following = kind[(kind.index(value[at]) + 1) % len(kind)]
                yield value[:at] + following + value[at + 1 :]
    yield value[:-1]


NEAR_MISSES = dict(near_misses())


def test_nearly_every_validator_has_a_neighbour_of_a_right_value_that_it_refuses() -> None:
    assert NEAR_MISSES.keys() == VALIDATORS.keys()
    without = [name for name, value in NEAR_MISSES.items() if value == "<>"]
    assert len(without) < 25, without


@cache
def near_miss_explainer() -> Explainer:
    rules = [
        rule(f"for-{name}", rf"(?s)<{number}<(.+)>{number}>", group=1, validator=name)
        for number, name in enumerate(VALIDATORS)
    ]
    return Explainer(small_ruleset().model_copy(update={"rules": tuple(rules)}), KEYS)


@pytest.mark.parametrize(("number", "name"), list(enumerate(VALIDATORS)))
def test_a_near_miss_is_laid_to_its_validator(number: int, name: str) -> None:
    assert not validator(name)(NEAR_MISSES[name])
    text = f"see <{number}<{NEAR_MISSES[name]}>{number}> here"
    (outcome,) = near_miss_explainer().explain(text, is_json=False, only=f"for-{name}")
    assert outcome.verdict == "failed-validator"
    assert name in outcome.because
    assert NEAR_MISSES[name] not in outcome.because


REASONS = small_ruleset(
    rule("gated", r"gated_[a-z]{8}", keywords=("ticket",)),
    rule("random", r"rnd_([A-Za-z0-9]{12})", group=1, min_entropy=3.0),
    rule("excepted", r"(?:test_)?ours_[a-z]{8}", unless="^test_"),
    rule("empty", r"opt_([a-z]*)", group=1),
    field("field-token", "*token", unless=("pagetoken",)),
    rule("order", r"order [0-9A-Za-z-]+@[a-z.]+", kind="pii", label="ORDER", action="keep"),
    keep=(Keep(id="contact", scope=("/contact",), reason="published"),),
    allow=(Allow(value=aws_key(7), reason="an example"),),
)


@pytest.mark.parametrize(
    ("event", "rule_id", "verdict"),
    [
        ({"a": "gated_abcdefgh"}, "gated", "no-keyword"),
        ({"a": "ticket gated_abcdefgh"}, "gated", "fired"),
        ({"a": "rnd_aaaaaaaaaaaa"}, "random", "low-entropy"),
        ({"a": "test_ours_abcdefgh"}, "excepted", "excused"),
        ({"a": "opt_"}, "empty", "nothing-in-group"),
        ({"page_token": "abc"}, "field-token", "excused"),
        ({"a": aws_key(7)}, "aws-key", "allowed"),
        ({"a_password": aws_key(7)}, "field-password", "allowed"),
        ({"contact": email(), "b": 1}, "email", "kept-by-scope"),
        ({"a": f"order {email()}"}, "email", "kept-by-rule"),
        ({"a": f"https://jane:{aws_key(2)}x@host/"}, "email", "no-match"),
        ({"a": f"https://u:{password()}@mail.example.org"}, "email", "lost-overlap"),
        ({"a": card()}, "card", "fired"),
        ({"a": "nothing"}, "card", "no-match"),
    ],
)
def test_a_rule_is_said_to_have_done_what_it_did(
    event: dict[str, Any], rule_id: str, verdict: str
) -> None:
    outcomes = reasons().explain(json.dumps(event), is_json=True, only=rule_id)
    assert [outcome.verdict for outcome in outcomes] == [verdict]


@cache
def reasons() -> Explainer:
    return Explainer(REASONS, KEYS)


def test_no_verdict_shows_a_value_even_as_a_name() -> None:
    event = {aws_key(3): card()[:-1] + "x", "a": [email(), password(), aws_key(4)]}
    said = repr(reasons().explain(json.dumps(event), is_json=True))
    assert "fired" in said
    assert not [v for v in (aws_key(3), aws_key(4), email(), card()[:-1]) if v in said]


def test_a_value_seen_several_times_counts_once() -> None:
    outcomes = reasons().explain(f"{aws_key(7)} and {aws_key(7)} and {aws_key(1)}", is_json=False)
    allowed = [outcome for outcome in outcomes if outcome.verdict == "allowed"]
    assert [outcome.count for outcome in allowed] == [1]


def test_a_rule_nobody_knows_is_refused() -> None:
    with pytest.raises(KeyError):
        reasons().explain("x", is_json=False, only="unknown")
