"""Looks a ruleset over: what is wrong with it, what overlaps, what each rule costs."""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from redactors import KeyRing, Ruleset, RulesetError, load_ruleset, ruleset_digest
from redactors.compiled import Matcher, Treatment, compile_ruleset, exact_pattern, matcher_of
from redactors.engine import masks_of
from redactors.finder import Cell, Finder
from redactors.loader import Entry, entries_in
from redactors.memory import RunMemory, common_words
from redactors.overlaps import Finding, resolve
from redactors.ruleset import Allow
from redactors.screen import Screen
from redactors.templates import expand

_MAX_SHARE: Final = 0.5
_MANY: Final = 1_000_000  # more than there are rules
_KEYS: Final = KeyRing("check", {"check": bytes(32)})  # personal data has rules only with a key


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a ruleset, with its place; `line` None: unknown."""

    source: str
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pattern's exact form takes on `corpus`, in nanoseconds a byte, and where it hits."""

    rule: str
    ns_per_byte: float
    hits: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found: mistakes fail it, overlaps change nothing in what is stored."""

    ruleset: Ruleset | None
    digest: str
    mistakes: tuple[Remark, ...]
    overlaps: tuple[Remark, ...] = ()


def check(source: Path | None, today: date) -> Report:
    """Everything there is to say against the ruleset in `source`; None: the built-in one."""
    entries: list[Entry] = []
    try:
        entries = entries_in(source)
        ruleset = load_ruleset(source, today=today)
        matchers = _Matchers(ruleset, {entry.id for entry in entries})
    except RulesetError as error:
        return Report(None, "", (_placed(error, entries),))
    remarks = [
        *_careless(entries, today),
        *_too_broad(entries, matchers),
        *_without_effect(entries, matchers),
    ]
    return Report(
        ruleset,
        ruleset_digest(ruleset),
        tuple(remark for remark, is_mistake in remarks if is_mistake),
        tuple(remark for remark, is_mistake in remarks if not is_mistake),
    )


class _Matchers:
    """A ruleset's pattern rules: those that stand in its own files apart from those it extends.

    What it extends was made ready before, and is found so; its own rules alone are soon made.
    """

    def __init__(self, ruleset: Ruleset, own: Collection[str | None]) -> None:
        masks = masks_of(ruleset, _KEYS)
        inherited = tuple(rule for rule in ruleset.rules if rule.id not in own)
        added = tuple(rule for rule in ruleset.rules if rule.id in own)
        parts = [
            compile_ruleset(ruleset.model_copy(update={"rules": rules}), masks, screened=False)
            for rules in (added, inherited)
        ]
        Screen(added, [field for field in ruleset.fields if field.id in own], masks.labels)
        self.own, self.fields, self.roles = parts[0].matchers, parts[0].fields, parts[0].roles
        self.shadows = {rule.id for rule in ruleset.in_mode("shadow").declared}
        self._finders = [Finder(part, masks, RunMemory()) for part in parts]

    def find_own(self, texts: Sequence[str]) -> Iterator[list[Finding]]:
        """What the ruleset's own rules find in each text, where they find anything."""
        found = self._finders[0].find([Cell("", text) for text in texts])
        return (each.findings for each in found.values())

    def find(self, text: str) -> list[Finding]:
        """What any rule finds; of equal ones those that are inherited come first."""
        findings: list[Finding] = []
        for rank, finder in enumerate(reversed(self._finders)):
            for found in finder.find([Cell("", text)]).values():
                findings += [replace(f, order=f.order + rank * _MANY) for f in found.findings]
        return findings


def costs(ruleset: Ruleset) -> list[Cost]:
    """What each pattern rule costs on the texts that no rule should find, the dearest first."""
    data = "\n".join(corpus(ruleset)).encode()
    found = []
    for matcher in map(matcher_of, ruleset.rules):
        start = time.thread_time_ns()
        hits = sum(1 for _ in matcher.exact.finditer(data))
        spent = time.thread_time_ns() - start
        found.append(Cost(matcher.rule.id, round(spent / len(data), 1), hits))
    return sorted(found, key=lambda cost: -cost.ns_per_byte)


def corpus(ruleset: Ruleset) -> list[str]:
    """Texts that hold nothing: common words, and what the rules say they reject."""
    rejects = (template for rule in ruleset.rules for template in rule.rejects)
    return [*sorted(common_words()), *map(expand, rejects)]


_Judged = tuple[Remark, bool]


def _placed(error: RulesetError, entries: Sequence[Entry]) -> Remark:
    """The error with the place of the entry it names, if it has none of its own."""
    if error.line is None:
        for entry in entries:
            if entry.id is not None and error.reason.startswith(f"{entry.id}: "):
                return _remark(entry, "pattern", error.reason)
            if entry.kind == "allow" and error.reason.startswith("allow: "):
                try:
                    exact_pattern(str(entry.value.get("pattern") or "x"), "allow")
                except RulesetError:
                    return _remark(entry, "pattern", error.reason)
    return Remark(error.source, error.line, error.reason)


def _remark(entry: Entry, key: str, reason: str) -> Remark:
    error = entry.place.error(reason, key)
    return Remark(error.source, error.line, reason)


def _careless(entries: Sequence[Entry], today: date) -> Iterator[_Judged]:
    for entry in entries:
        if entry.kind == "rules" and not entry.value.get("matches"):
            yield _remark(entry, "matches", f"{entry.id}: has no example in `matches`"), True
        if entry.kind == "allow":
            allow = Allow.model_validate({**entry.value, "expires": _day(entry)})
            if allow.expires is not None and allow.expires < today:
                reason = f"allow: expired on {allow.expires}: renew it or take it out"
                yield _remark(entry, "expires", reason), True


def _day(entry: Entry) -> date | None:
    day = entry.value.get("expires")
    return None if day is None else date.fromisoformat(day)


def _too_broad(entries: Sequence[Entry], matchers: _Matchers) -> Iterator[_Judged]:
    words = sorted(common_words())
    hits = Counter(
        rule for findings in matchers.find_own(words) for rule in {f.rule.id for f in findings}
    )
    for entry in entries:
        count = hits[entry.id or ""]
        if entry.kind == "rules" and count > len(words) * _MAX_SHARE:
            reason = f"{entry.id}: finds {count} of {len(words)} common words"
            yield _remark(entry, "pattern", reason), True


def _without_effect(entries: Sequence[Entry], matchers: _Matchers) -> Iterator[_Judged]:
    """Rules and names whose place others take: a mistake if those do something else."""
    own = {entry.id: entry for entry in entries}
    for matcher in matchers.own:
        winners = _winners(matchers, matcher)
        if winners and matcher.rule.id not in {winner.id for winner in winners}:
            entry = own[matcher.rule.id]
            remark, differs = _taken(
                entry, "pattern", "each of its examples", matcher.rule, winners
            )
            yield remark, differs and matcher.rule.mode == "act"
    for rule in (each for each in matchers.fields if each.id in own):
        for name in rule.names:
            winner = matchers.roles.rule_for(name.removeprefix("*"))
            if winner is not None and winner.id != rule.id:
                yield _taken(own[rule.id], "names", f"the name {name!r}", rule, [winner])


def _winners(matchers: _Matchers, matcher: Matcher) -> list[Treatment]:
    """The rules that have a say over the rule's own examples."""
    won: list[Treatment] = []
    for template in matcher.rule.matches:
        found = matchers.find(expand(template))
        mine = [f for f in found if f.rule is matcher.rule]
        findings = [f for f in found if f.rule is matcher.rule or f.rule.id not in matchers.shadows]
        for each in resolve(findings, []):
            if any(each.start < f.end and f.start < each.end for f in mine):
                won.append(each.rule)
    return won


def _taken(
    entry: Entry, key: str, what: str, rule: Treatment, winners: Sequence[Treatment]
) -> _Judged:
    other = next((w for w in winners if (w.label, w.action) != (rule.label, rule.action)), None)
    winner = other or winners[0]
    does = f"{winner.id}, which does {'something else' if other else 'the same'}"
    return _remark(entry, key, f"{entry.id}: {what} is taken by {does}"), other is not None
