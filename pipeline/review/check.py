"""Looks a ruleset over: what is wrong with it, what overlaps, what each rule costs."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from redactors import KeyRing, Ruleset, RulesetError, load_ruleset, ruleset_digest
from redactors.compiled import Compiled, Matcher, Treatment, compile_ruleset, exact_pattern
from redactors.engine import masks_of
from redactors.finder import Cell, Finder
from redactors.loader import Entry, entries_in
from redactors.memory import RunMemory, common_words
from redactors.overlaps import resolve
from redactors.ruleset import Allow
from redactors.templates import expand

_MAX_SHARE: Final = 0.5
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
        masks = masks_of(ruleset, _KEYS)
        compiled = compile_ruleset(ruleset, masks)
    except RulesetError as error:
        return Report(None, "", (_placed(error, entries),))
    finder = Finder(compiled, masks, RunMemory())
    remarks = [
        *_careless(entries, today),
        *_too_broad(entries, finder),
        *_without_effect(entries, compiled, finder),
    ]
    return Report(
        ruleset,
        ruleset_digest(ruleset),
        tuple(remark for remark, is_mistake in remarks if is_mistake),
        tuple(remark for remark, is_mistake in remarks if not is_mistake),
    )


def costs(ruleset: Ruleset) -> list[Cost]:
    """What each pattern rule costs on the texts that no rule should find, the dearest first."""
    compiled = compile_ruleset(ruleset, masks_of(ruleset, _KEYS))
    data = "\n".join(corpus(ruleset)).encode()
    found = []
    for matcher in compiled.matchers:
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


def _too_broad(entries: Sequence[Entry], finder: Finder) -> Iterator[_Judged]:
    words = sorted(common_words())
    found = finder.find([Cell("", word) for word in words])
    hits = Counter(rule for each in found.values() for rule in {f.rule.id for f in each.findings})
    for entry in entries:
        count = hits[entry.id or ""]
        if entry.kind == "rules" and count > len(words) * _MAX_SHARE:
            reason = f"{entry.id}: finds {count} of {len(words)} common words"
            yield _remark(entry, "pattern", reason), True


def _without_effect(
    entries: Sequence[Entry], compiled: Compiled, finder: Finder
) -> Iterator[_Judged]:
    """Rules and names whose place others take: a mistake if those do something else."""
    own = {entry.id: entry for entry in entries}
    for matcher in (each for each in compiled.matchers if each.rule.id in own):
        entry = own[matcher.rule.id]
        winners = _winners(finder, matcher)
        if winners and matcher.rule.id not in {winner.id for winner in winners}:
            yield _taken(entry, "pattern", "each of its examples", matcher.rule, winners)
    for rule in (each for each in compiled.fields if each.id in own):
        for name in rule.names:
            winner = compiled.roles.rule_for(name.removeprefix("*"))
            if winner is not None and winner.id != rule.id:
                yield _taken(own[rule.id], "names", f"the name {name!r}", rule, [winner])


def _winners(finder: Finder, matcher: Matcher) -> list[Treatment]:
    """The rules that have a say over the rule's own examples."""
    won: list[Treatment] = []
    for template in matcher.rule.matches:
        found = finder.find([Cell("", expand(template))]).get(0)
        findings = found.findings if found is not None else []
        mine = [f for f in findings if f.rule is matcher.rule]
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
