"""Proves a rule by its own examples: every `matches` must be found, no `rejects` may be."""

from collections.abc import Callable

from redactors.compiled import matcher_of
from redactors.errors import RulesetError
from redactors.finder import spans
from redactors.names import names_any
from redactors.ruleset import FieldRule, Rule
from redactors.templates import expand
from redactors.validators import validator


def disproof(rule: Rule | FieldRule) -> str | None:
    """Why `rule` is not what it says, or None; never quotes an example's expansion."""
    try:
        finds = _field_finds(rule) if isinstance(rule, FieldRule) else _pattern_finds(rule)
        for template in rule.matches:
            if not finds(expand(template)):
                return f"does not find its example {template!r}"
        for template in rule.rejects:
            if finds(expand(template)):
                return f"finds {template!r}, which it should reject"
    except RulesetError as error:
        return error.reason.removeprefix(f"{rule.id}: ")
    except ValueError as error:
        return str(error)
    return None


def _pattern_finds(rule: Rule) -> Callable[[str], bool]:
    matcher = matcher_of(rule)

    def finds(text: str) -> bool:
        data, lowered = text.encode(), text.lower().encode()
        if matcher.keywords and not any(word in lowered for word in matcher.keywords):
            return False
        return any(True for _ in spans(matcher, data))

    return finds


def _field_finds(rule: FieldRule) -> Callable[[str], bool]:
    valid = None if rule.validator is None else validator(rule.validator)

    def finds(text: str) -> bool:
        name, separator, value = text.partition(": ")
        if not separator:
            raise ValueError("an example of a field rule is written `name: value`")
        if names_any(rule.unless, name) or not names_any(rule.names, name):
            return False
        return valid is None or valid(value)

    return finds
