"""What a field's name asks for: the rule that masks its value, its part in a name/value pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from redactors.layers import revealed
from redactors.names import normalise, tails
from redactors.ruleset import FieldRule
from redactors.spelling import spelling

_PAIR_NAMES: Final = frozenset(
    ["name", "key", "header", "headername", "field", "fieldname", "param", "parameter", "k",
     "variable", "attribute", "property", "envname"]
)  # fmt: skip
_PAIR_VALUES: Final = frozenset(
    ["value", "values", "headervalue", "val", "v", "stringvalue", "intvalue", "doublevalue",
     "arrayvalue", "fieldvalue", "rawvalue", "text", "content", "plaintext"]
)  # fmt: skip
_MAX_NAME_LENGTH: Final = 256
_MAX_CACHED: Final = 16_384


@dataclass(frozen=True, slots=True)
class Role:
    """`is_name` and `is_value`: it may be one half of `{"name": …, "value": …}`."""

    rule: FieldRule | None
    is_name: bool
    is_value: bool


class Roles(dict[str, Role | None]):
    """Roles by name; None: a name that says nothing.

    Looked up once per distinct name and remembered, up to a bound.  Of several rules, those for
    secrets come first, then the longest name, then the first declared.  A name with a mask in it
    says nothing, so that masking a key never changes what is done to its value.
    """

    def __init__(self, rules: Sequence[FieldRule], is_masked: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_masked = is_masked
        self._exact: dict[str, FieldRule] = {}
        self._tails: dict[str, FieldRule] = {}
        self._unless: dict[str, set[str]] = {}
        ordered = sorted(rules, key=lambda rule: rule.kind != "secret")
        for rule in ordered:
            self._unless[rule.id] = set(rule.unless)
            for name in rule.names:
                table = self._tails if name.startswith("*") else self._exact
                table.setdefault(name.removeprefix("*"), rule)

    def __missing__(self, name: str) -> Role | None:
        if len(self) >= _MAX_CACHED:
            self.clear()
        role = self._role(name)
        self[name] = role
        return role

    def rule_for(self, name: str) -> FieldRule | None:
        """The rule for a field called `name`, in any way of writing it."""
        found = tails(name)
        if not found:
            return None
        whole, bare = found[0], found[0].rstrip("0123456789")
        exact = [(listed, self._exact.get(listed)) for listed in (whole, bare)]
        tailed = [(tail, self._tails.get(tail)) for tail in sorted(found, key=len, reverse=True)]
        for listed, rule in (*exact, *tailed):
            if (
                rule is not None
                and spelling(listed).search(name)
                and not self._excepted(rule, found, whole, bare)
            ):
                return rule
        return None

    def _excepted(self, rule: FieldRule, found: tuple[str, ...], whole: str, bare: str) -> bool:
        unless = self._unless[rule.id]
        if not unless:
            return False
        return whole in unless or bare in unless or any(f"*{tail}" in unless for tail in found)

    def _role(self, name: str) -> Role | None:
        if len(name) > _MAX_NAME_LENGTH or self._is_masked(name):
            return None
        name = revealed(name).text
        bare = normalise(name)
        role = Role(self.rule_for(name), bare in _PAIR_NAMES, bare in _PAIR_VALUES)
        return role if role.rule or role.is_name or role.is_value else None
