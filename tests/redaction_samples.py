"""A small ruleset, a fixed key ring and planted values for tests of the redaction engine."""

import random
import string
from functools import cache

from redactors import KeyRing, Redactor, Ruleset
from redactors.ruleset import FieldRule, Rule

KEYS = KeyRing("k1", {"k1": bytes(range(32))})
"""One key, the same in every test: masks can be compared."""

DENSE = """
name: dense
version: '1'
rules:
  - id: every-letter
    kind: secret
    label: LETTER
    pattern: 'q'
    reason: more places than are examined one by one
    owner: test
    matches: ['q']
    rejects: ['a']
"""
"""A ruleset under which a text full of one letter cannot be examined."""


def rule(rule_id: str, pattern: str, **changes: object) -> Rule:
    """A pattern rule with the fields that tests do not care about filled in."""
    given = {
        "id": rule_id, "kind": "secret", "label": "SECRET", "pattern": pattern,
        "reason": "test", "owner": "test", "matches": (), **changes,
    }  # fmt: skip
    return Rule.model_validate(given)


def field(rule_id: str, *names: str, **changes: object) -> FieldRule:
    """A field rule with the fields that tests do not care about filled in."""
    given = {
        "id": rule_id, "kind": "secret", "label": "PASSWORD", "names": names,
        "reason": "test", "owner": "test", **changes,
    }  # fmt: skip
    return FieldRule.model_validate(given)


def small_ruleset(*more: Rule | FieldRule, **changes: object) -> Ruleset:
    """A ruleset with one rule of each sort, and `more`."""
    rules = [
        rule("aws-key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
        rule("card", r"\b\d{4}(?:[ -]?\d{4}){3}\b", kind="pii", label="CARD", validator="luhn"),
        rule("email", r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b",
             kind="pii", label="EMAIL", action="hash"),
        rule("url-password", r"://[^\s:/@]{1,64}:([^\s/@]{1,200})@", group=1),
        rule("private-key", r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[A-Za-z0-9+/=\s]{16,}",
             label="PRIVATE_KEY"),
    ]  # fmt: skip
    fields = [
        field("field-password", "*password", "*apikey", "authorization", propagate=True),
        field("field-name", "firstname", "lastname", kind="pii", label="NAME", action="hash",
              propagate=True),
    ]  # fmt: skip
    given = {
        "name": "test", "version": "1",
        "rules": (*rules, *(r for r in more if isinstance(r, Rule))),
        "fields": (*fields, *(r for r in more if isinstance(r, FieldRule))),
        **changes,
    }  # fmt: skip
    return Ruleset.model_validate(given)


@cache
def small_redactor() -> Redactor:
    """A redactor for `small_ruleset()`, with a key."""
    return Redactor(small_ruleset(), KEYS)


def letters(seed: int, length: int, alphabet: str = string.ascii_uppercase + "234567") -> str:
    """Random characters, the same for the same seed."""
    return "".join(random.Random(seed).choices(alphabet, k=length))


def aws_key(seed: int = 1) -> str:
    """An access key id that no one holds."""
    return "AKIA" + letters(seed, 16)


def card(seed: int = 1) -> str:
    """A card number whose check digit is right (ISO/IEC 7812-1)."""
    digits = "4" + letters(seed, 14, string.digits)
    odd = sum(int(d) for d in digits[1::2])
    even = sum(sum(divmod(2 * int(d), 10)) for d in digits[0::2])
    return digits + str(-(odd + even) % 10)


def password(seed: int = 1) -> str:
    """Something only a field's name or a delimiter tells to be a password."""
    return "wren-" + letters(seed, 4, string.digits) + "-cobalt" + letters(seed, 3)


def email(seed: int = 1) -> str:
    """An address under a reserved domain (RFC 2606)."""
    return letters(seed, 9, string.ascii_lowercase) + "@mail.example.org"
