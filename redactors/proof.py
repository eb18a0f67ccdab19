"""Proves a rule by its own examples: every `matches` must be found, no `rejects` may be."""

from typing import Any, Final

import re2

from redactors.names import names_any
from redactors.ruleset import FieldRule, Rule
from redactors.templates import expand
from redactors.validators import validator
from redactors.validators.entropy import entropy_bits

_OPTIONS: Final = re2.Options()
_OPTIONS.longest_match = True
_OPTIONS.log_errors = False


def disproof(rule: Rule | FieldRule) -> str | None:
    """Why `rule` is not what it says, or None; never quotes an example's expansion."""
    try:
        for template in rule.matches:
            if not _finds(rule, expand(template)):
                return f"does not find its example {template!r}"
        for template in rule.rejects:
            if _finds(rule, expand(template)):
                return f"finds {template!r}, which it should reject"
    except re2.error as error:
        said = error.args[0]
        return f"pattern is not RE2 syntax: {said.decode() if isinstance(said, bytes) else said}"
    except ValueError as error:
        return str(error)
    return None


def _finds(rule: Rule | FieldRule, text: str) -> bool:
    return _field_finds(rule, text) if isinstance(rule, FieldRule) else _pattern_finds(rule, text)


def _pattern_finds(rule: Rule, text: str) -> bool:
    lowered = text.lower()
    if rule.keywords and not any(word in lowered for word in rule.keywords):
        return False
    return any(
        _confirmed(rule, match) for match in re2.compile(rule.pattern, _OPTIONS).finditer(text)
    )


def _confirmed(rule: Rule, match: Any) -> bool:
    value = match.group(rule.group)
    if not value:
        return False
    if rule.unless is not None and re2.compile(rule.unless, _OPTIONS).search(match.group(0)):
        return False
    if rule.validator is not None and not validator(rule.validator)(value):
        return False
    return rule.min_entropy is None or entropy_bits(value) >= rule.min_entropy


def _field_finds(rule: FieldRule, text: str) -> bool:
    name, separator, value = text.partition(": ")
    if not separator:
        raise ValueError("an example of a field rule is written `name: value`")
    if names_any(rule.unless, name) or not names_any(rule.names, name):
        return False
    return rule.validator is None or validator(rule.validator)(value)
