"""Says why each rule fired on a payload, or why not: the engine itself, watched at work.

What is said never holds a value: the rule, the verdict, the field where its name is harmless.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from redactors.changes import Edited
from redactors.compiled import Compiled, Matcher
from redactors.edits import Edit
from redactors.engine import Redactor
from redactors.examination import Examination
from redactors.finder import Finder, Found, in_text
from redactors.keys import KeyRing
from redactors.masks import Masks
from redactors.memory import RunMemory
from redactors.names import names_any
from redactors.overlaps import Finding, resolve
from redactors.ruleset import FieldRule, Ruleset
from redactors.types import Redacted, Redaction
from redactors.validators.entropy import entropy_bits

Verdict = Literal[
    "fired", "no-keyword", "excused", "nothing-in-group", "failed-validator", "low-entropy",
    "allowed", "kept-by-scope", "kept-by-rule", "lost-overlap", "shadow", "no-match",
]  # fmt: skip

# A name that holds no digits is shown: it can hardly be the value somebody looks for.
_HARMLESS: Final = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,40}")
_MAX_CANDIDATES: Final = 1_000  # of one rule in one text


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a rule, at `count` places or with as many values that it did not take.

    `field` is a JSON pointer into the redacted text where the rule fired, else the field's name;
    "" if it has none, or none that can be shown.  `because` says it in words.
    """

    rule: str
    verdict: Verdict
    because: str
    field: str
    count: int = 1


def _counted(outcomes: Sequence[Outcome]) -> list[Outcome]:
    counts: dict[Outcome, int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    return [
        Outcome(each.rule, each.verdict, each.because, each.field, count)
        for each, count in counts.items()
    ]


@dataclass(slots=True)
class _Log:
    """What was seen at work; holds raw texts, and is gone with the call."""

    findings: dict[tuple[str, str], tuple[Found, list[Finding]]] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def note(self, rule: str, verdict: Verdict, because: str, name: str, value: str) -> None:
        """One value counts once for a rule, however often it is looked at."""
        outcome = Outcome(rule, verdict, because, _shown(name))
        self.outcomes.setdefault((rule, value), outcome)


class Explainer(Redactor):
    """A redactor that passes nothing on unexamined, and can say why it did what it did."""

    def __init__(self, ruleset: Ruleset, keys: KeyRing) -> None:
        super().__init__(ruleset, keys)
        self._ids = {each.id for each in ruleset.declared}
        self._log = _Log()
        self._finder = Finder(self._compiled, self._masks, RunMemory())
        self._shadow = Redactor(ruleset, keys, mode="shadow") if ruleset.has_shadow else None

    def explain(self, payload: str, *, is_json: bool, only: str | None = None) -> list[Outcome]:
        """What became of each candidate rule in `payload`, those that fired first.

        `only` names one rule to hear about, also if it is no candidate; KeyError if there is none.
        Raises Unexaminable as a redactor does.
        """
        if only is not None and only not in self._ids:
            raise KeyError(only)
        self._log = _Log()
        self._compiled.roles.clear()
        redacted = self.redact_json(payload) if is_json else self.redact_text(payload)
        outcomes = _counted([*self._outcomes(redacted), *self._shadowed(redacted.text, is_json)])
        self._log = _Log()
        if only is None:
            return outcomes
        chosen = [each for each in outcomes if each.rule == only]
        return chosen or [Outcome(only, "no-match", "nothing here looks like what it finds", "")]

    def _is_clean(self, _body: str, _memory: RunMemory | None) -> bool:
        return False

    def _examination(self, memory: RunMemory | None) -> Examination:
        memory = RunMemory() if memory is None else memory
        return _WatchedExamination(self._compiled, self._masks, memory, self._log)

    def _outcomes(self, redacted: Redacted) -> list[Outcome]:
        fired = [_fired(redaction) for redaction in redacted.redactions]
        explained = {each.rule for each in (*fired, *self._log.outcomes.values())}
        for found, findings in self._log.findings.values():
            self._note_lost(found, findings, explained)
        for found, findings in self._log.findings.values():
            self._note_refused(found, findings)
        return [*fired, *self._log.outcomes.values(), *self._excepted_names()]

    def _shadowed(self, text: str, is_json: bool) -> Iterator[Outcome]:
        """What the rules in shadow would do to what the others leave."""
        if self._shadow is None:
            return
        look = self._shadow.redact_json if is_json else self._shadow.redact_text
        for redaction in look(text).redactions:
            because = f"would {redaction.action} as {redaction.label}, were it not in shadow"
            yield Outcome(redaction.rule, "shadow", because, redaction.path)

    def _excepted_names(self) -> Iterator[Outcome]:
        """The fields that a rule would take, were they not excepted from it."""
        roles = self._compiled.roles
        unnamed = [name for name, role in list(roles.items()) if not (role and role.rule)]
        for name in unnamed:
            for rule in self._compiled.fields:
                if rule.unless and names_any(rule.names, name) and names_any(rule.unless, name):
                    because = "`unless` lists the field's name"
                    yield Outcome(rule.id, "excused", because, _shown(name))

    def _note_refused(self, found: Found, findings: Sequence[Finding]) -> None:
        """Why matches of patterns are no findings."""
        lowered = found.data.lower()
        for matcher in self._compiled.matchers:
            taken = [(f.start, f.end) for f in findings if f.rule is matcher.rule]
            gated = matcher.keywords and not any(word in lowered for word in matcher.keywords)
            for start, end, refusal in _candidates(matcher, found.data):
                span = in_text(found, start, end)
                if span is None or any(s < span[1] and span[0] < e for s, e in taken):
                    continue
                value = found.text[slice(*span)]
                if gated:
                    refusal = "no-keyword", "none of its keywords stands in the text"
                elif refusal is None and self._finder.allowed(value):
                    refusal = _ALLOWED
                if refusal is not None:
                    taken.append(span)
                    self._log.note(matcher.rule.id, *refusal, found.name, value)

    def _note_lost(self, found: Found, findings: Sequence[Finding], explained: set[str]) -> None:
        """Which findings gave way, and to what."""
        keepers = [f for f in findings if f.rule.action == "keep"]
        kept = {f: k for f in findings for k in keepers if k.start <= f.start and f.end <= k.end}
        winners = resolve([f for f in findings if f not in kept], self._masks.spans(found.text))
        for finding in findings:
            rule, value = finding.rule.id, found.text[finding.start : finding.end]
            if finding in kept:
                because = f"{kept[finding].rule.id} keeps what stands there"
                self._log.note(rule, "kept-by-rule", because, found.name, value)
                continue
            over = [w for w in winners if w.start < finding.end and finding.start < w.end]
            if not any(w.rule.id == rule for w in over):
                winner = over[0].rule.id if over else "a mask"
            elif rule.removeprefix("memory:") in explained:
                continue
            else:
                winner = "what is found around it or by its field's name"
            because = f"{winner} takes the place"
            self._log.note(rule, "lost-overlap", because, found.name, value)


class _WatchedExamination(Examination):
    def __init__(self, compiled: Compiled, masks: Masks, memory: RunMemory, log: _Log) -> None:
        super().__init__(compiled, masks, memory)
        self._log = log

    def _findings(self, found: Found) -> list[Finding]:
        findings = super()._findings(found)
        self._log.findings.setdefault((found.name, found.text), (found, list(findings)))
        return findings

    def _by_field(self, text: str, quoted: bool, rule: FieldRule) -> list[Edit] | None:
        if rule.action == "keep":
            self._log.note(rule.id, "kept-by-rule", "its action is `keep`", "", text)
        return super()._by_field(text, quoted, rule)

    def _valid(self, rule: FieldRule, text: str) -> bool:
        valid = super()._valid(rule, text)
        if not valid:
            refusal = _ALLOWED if self._finder.allowed(text) else _invalid(rule.validator)
            self._log.note(rule.id, *refusal, "", text)
        return valid

    def _is_kept(self, edited: Edited, new_keys: Mapping[int, str]) -> bool:
        kept = super()._is_kept(edited, new_keys)
        for mark in (mark for edit in edited.edits for mark in edit.marks) if kept else ():
            leaf = edited.leaf
            because = "a `keep` scope covers the field"
            self._log.note(mark.rule, "kept-by-scope", because, leaf.name, leaf.text)
        return kept


_Refusal = tuple[Verdict, str]
_ALLOWED: Final[_Refusal] = ("allowed", "the allow-list names the value")


def _candidates(matcher: Matcher, data: bytes) -> Iterator[tuple[int, int, _Refusal | None]]:
    """The matches of a pattern in `data`, as spans of bytes, each with why it is no finding."""
    position, group = 0, matcher.rule.group
    for _ in range(_MAX_CANDIDATES):
        match = matcher.exact.search(data, position)
        if match is None:
            return
        value = match[group] or b""
        yield *match.span(group if value else 0), _refusal(matcher, match[0], value)
        position = match.end()


def _refusal(matcher: Matcher, whole: bytes, value: bytes) -> _Refusal | None:
    """Why a match is no finding; None: it is one."""
    if matcher.excuses(whole):
        return "excused", "what it matches is of the kind that `unless` names"
    if matcher.accepts(value):
        return None
    if not value:
        return "nothing-in-group", "nothing stands in the group that it masks"
    text = value.decode("utf-8", "replace")
    if matcher.valid is not None and not matcher.valid(text):
        return _invalid(matcher.rule.validator)
    least = matcher.rule.min_entropy
    return "low-entropy", f"{entropy_bits(text):.1f} bits a character are less than {least}"


def _invalid(name: str | None) -> _Refusal:
    return "failed-validator", f"the validator {name} refuses the value"


def _fired(redaction: Redaction) -> Outcome:
    rule = redaction.rule.removeprefix("memory:")
    because = f"{redaction.action} as {redaction.label}"
    if redaction.layers:
        because += f", seen through {' and '.join(redaction.layers)}"
    if rule != redaction.rule:
        because += ", remembered from its field"
    return Outcome(rule, "fired", because, redaction.path)


def _shown(name: str) -> str:
    return name if _HARMLESS.fullmatch(name) else ""
