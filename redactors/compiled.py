"""A ruleset made ready: one hyperscan database says what may match, RE2 says exactly where."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import re2

from redactors.assignments import flag_patterns, named_patterns
from redactors.cache import derived
from redactors.databases import Scanned, pattern_database
from redactors.encoded import CODE_PATTERNS, DATA_URL_PATTERN
from redactors.errors import RulesetError
from redactors.fields import Roles
from redactors.layers import HIDDEN_PATTERNS, PERCENT_PATTERN
from redactors.loosen import decoded_patterns
from redactors.masks import Masks
from redactors.pattern import is_nullable, longest, over_bytes, parse
from redactors.ruleset import FieldRule, Recognizer, Rule, Ruleset
from redactors.scopes import Scopes
from redactors.screen import Screen
from redactors.validators import validator
from redactors.validators.entropy import entropy_bits


class Treatment(Protocol):
    """What every kind of rule says about its findings."""

    @property
    def id(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def action(self) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Matcher:
    """A pattern rule ready to confirm: `exact` is leftmost-longest, over UTF-8."""

    rule: Rule
    exact: Any
    longest: int | None  # bytes of a match, None: no limit
    keywords: tuple[bytes, ...]
    unless: Any
    valid: Callable[[str], bool] | None

    def excuses(self, match: bytes) -> bool:
        """Whether the whole match is of the kind that `unless` names, and no finding."""
        return self.unless is not None and self.unless.search(match) is not None

    def accepts(self, value: bytes) -> bool:
        """Whether what the pattern found passes the rule's validator and entropy."""
        if not value:
            return False
        text = value.decode("utf-8", "replace")
        if self.valid is not None and not self.valid(text):
            return False
        return self.rule.min_entropy is None or entropy_bits(text) >= self.rule.min_entropy


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """What `engine.py` applies; nothing of it depends on a payload."""

    matchers: tuple[Matcher, ...]
    database: Any  # the matchers' patterns, then the signals
    signals: tuple[str, ...]
    fields: tuple[FieldRule, ...]
    once: frozenset[int]  # the signals of which a scan reports only the first
    valid: Mapping[str, Callable[[str], bool]]  # the validators of field rules, by rule id
    roles: Roles
    allowed: frozenset[str]
    allowed_patterns: tuple[Any, ...]
    kept: Scopes
    secret_rules: frozenset[str]  # ids of the pattern rules for secrets
    personal: frozenset[int]  # the indexes of the matchers for personal data
    recognizers: Any  # a `presidio.Recognizers`, or None
    screen: Screen | None  # None: no text is passed on unexamined


def compile_ruleset(ruleset: Ruleset, masks: Masks, *, screened: bool = True) -> Compiled:
    """Compiles `ruleset`; raises RulesetError for a pattern that either engine refuses.

    The screen takes the longest to make: `screened` says whether it is wanted.  Without a key only
    the rules for secrets act: personal data is left to who holds one.
    """
    kinds = ("secret", "pii") if masks.keyed else ("secret",)
    matchers = tuple(matcher_of(rule) for rule in ruleset.rules if rule.kind in kinds)
    fields = [field for field in ruleset.fields if field.kind in kinds]
    recognizers = _recognizers([r for r in ruleset.recognizers if r.kind in kinds])
    signals = _signals(fields)
    numbered = zip((m.rule.id for m in matchers), _decoded(matchers), strict=True)
    scanned = [
        Scanned(name, pattern, index, once=name in ONCE and index >= len(matchers))
        for index, (name, patterns) in enumerate([*numbered, *signals.items()])
        for pattern in patterns
    ]
    return Compiled(
        matchers=matchers,
        database=pattern_database(scanned),
        signals=tuple(signals),
        fields=tuple(fields),
        once=frozenset(len(matchers) + at for at, name in enumerate(signals) if name in ONCE),
        valid={f.id: validator(f.validator) for f in fields if f.validator is not None},
        roles=Roles(fields, lambda name: bool(masks.spans(name))),
        allowed=frozenset(entry.value for entry in ruleset.allow if entry.value is not None),
        allowed_patterns=tuple(
            exact_pattern(entry.pattern, "allow") for entry in ruleset.allow if entry.pattern
        ),
        kept=Scopes(scope for keep in ruleset.keep for scope in keep.scope),
        secret_rules=frozenset(m.rule.id for m in matchers if m.rule.kind == "secret"),
        personal=frozenset(i for i, m in enumerate(matchers) if m.rule.kind != "secret"),
        recognizers=recognizers,
        screen=Screen([m.rule for m in matchers], fields, masks.labels)
        if screened and not recognizers
        else None,
    )


def _decoded(matchers: Sequence[Matcher]) -> list[list[str]]:
    """What decoded text is scanned for, by the matcher."""
    rules = [matcher.rule for matcher in matchers]
    return derived(
        "decoded",
        [rule.pattern for rule in rules],
        list[list[str]],
        lambda: [decoded_patterns(rule.pattern, rule.id) for rule in rules],
    )


def _recognizers(declared: Sequence[Recognizer]) -> Any:
    if not declared:
        return None
    from redactors.presidio import Recognizers  # heavy: only for a ruleset that asks for it

    return Recognizers(declared, os.urandom(32))  # what is remembered stays in the process


def exact_pattern(pattern: str, rule_id: str) -> Any:
    """`pattern` for RE2, leftmost-longest over bytes."""
    options = re2.Options()
    options.longest_match = True
    options.log_errors = False
    if is_nullable(parse(pattern, rule_id)):
        raise RulesetError(f"{rule_id}: pattern may match nothing at all")
    try:
        return re2.compile(over_bytes(pattern, rule_id), options)
    except re2.error as error:
        said = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise RulesetError(f"{rule_id}: pattern is not RE2 syntax: {said}") from None


def matcher_of(rule: Rule) -> Matcher:
    """`rule` made ready; raises RulesetError for a pattern and ValueError for a validator."""
    exact = exact_pattern(rule.pattern, rule.id)
    if not 0 <= rule.group <= exact.groups:
        held = f"its pattern has {exact.groups}"
        raise RulesetError(f"{rule.id}: there is no group {rule.group}: {held}")
    return Matcher(
        rule=rule,
        exact=exact,
        longest=longest(parse(rule.pattern, rule.id)),
        keywords=tuple(word.encode() for word in rule.keywords),
        unless=None if rule.unless is None else exact_pattern(rule.unless, rule.id),
        valid=None if rule.validator is None else validator(rule.validator),
    )


NAMED: Final = "named"
FLAG: Final = "flag"
OBJECT: Final = "object"
BASE64: Final = "base64"
HIDDEN: Final = "hidden"
PERCENT: Final = "percent"
MEMORY: Final = "memory"
ONCE: Final = frozenset({BASE64, HIDDEN, PERCENT})
"""Signals of which a scan reports only the first: all its texts are then looked at that way."""


def _signals(fields: Sequence[FieldRule]) -> dict[str, list[str]]:
    """Patterns that no rule owns: each says that a text needs one more way of looking at it."""
    secret = [field for field in fields if field.kind == "secret"]
    return {
        NAMED: named_patterns(secret),
        FLAG: flag_patterns(secret),
        OBJECT: [r'\{\s{0,16}"'],
        BASE64: [*CODE_PATTERNS, DATA_URL_PATTERN],
        HIDDEN: list(HIDDEN_PATTERNS),
        PERCENT: [PERCENT_PATTERN],
        MEMORY: [],  # found by the run's own database
    }
