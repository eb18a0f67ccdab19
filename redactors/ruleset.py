"""Declared rules: the strict model of a ruleset document.

A ruleset is declared here, compiled once per worker (`compiled.py`) and applied (`engine.py`).
"""

import re
from datetime import date
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from redactors.names import normalise

# Raised whenever the same rules would give another output; part of every ruleset's digest.
ENGINE_VERSION = "2"

Action = Literal["keep", "mask", "hash", "length", "drop"]
Kind = Literal["secret", "pii"]
Mode = Literal["act", "shadow"]
"""A rule in shadow changes nothing: what it would mask is counted (`Redactor(mode="shadow")`)."""

RuleId = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Label = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]

_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+")


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("say something here")
    return text


def _keyword(word: str) -> str:
    if not word or word != word.lower():
        raise ValueError(f"keyword {word!r} can never decide anything: write it in lower case")
    return word


def _pointer(scope: str) -> str:
    if not _POINTER.fullmatch(scope):
        raise ValueError(f"scope {scope!r} is no JSON pointer: write it like '/a/*/b'")
    return scope


def _prose_or_pointer(scope: str) -> str:
    return scope if scope == "prose" else _pointer(scope)


def _field_name(name: str) -> str:
    bare = name.removeprefix("*")
    if not bare or bare != normalise(bare):
        raise ValueError(f"name {name!r} can never be met: write it like {normalise(bare)!r}")
    return name


Said = Annotated[str, AfterValidator(_said)]
Keyword = Annotated[str, AfterValidator(_keyword)]
Pointer = Annotated[str, AfterValidator(_pointer)]
ProseOrPointer = Annotated[str, AfterValidator(_prose_or_pointer)]
FieldName = Annotated[str, AfterValidator(_field_name)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Rule(_Strict):
    """A pattern rule: finds a span in decoded text (leaves, keys, numbers).

    `pattern` is RE2 syntax that hyperscan takes too.  `keywords` (lower case) are a gate: one of
    them stands in the text.  `group` is what is masked, and what `validator` and `min_entropy`
    (bits per character) judge.  `unless` is searched in the whole match: found, it is no finding.
    `matches` and `rejects` are example templates (`templates.py`) that the loader runs.  In `mode`
    shadow it changes nothing; what it would mask is counted.
    """

    id: RuleId
    kind: Kind
    label: Label
    pattern: str
    keywords: tuple[Keyword, ...] = ()
    group: int = 0
    validator: str | None = None
    min_entropy: float | None = None
    unless: str | None = None
    action: Action = "mask"
    mode: Mode = "act"
    reason: Said
    owner: Said
    matches: tuple[str, ...]
    rejects: tuple[str, ...] = ()


class FieldRule(_Strict):
    """Masks the whole value of any field whose normalised name is listed.

    Names are compared lower-case without `_`, `-`, `.` and spaces (`X-Api-Key` is `xapikey`); a
    name written `*token` also takes any name that ends so at a word boundary of the original;
    `unless` names (the same two forms) are never taken.  `matches` and `rejects` are
    `name: value` templates.
    """

    id: RuleId
    kind: Kind
    label: Label
    names: tuple[FieldName, ...]
    unless: tuple[FieldName, ...] = ()
    action: Action = "mask"
    mode: Mode = "act"
    propagate: bool = False
    validator: str | None = None
    reason: Said
    owner: Said
    matches: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()


class Recognizer(_Strict):
    """A Presidio entity looked for in scoped prose (extra `ner`) or by a pattern recogniser."""

    id: RuleId
    presidio: str
    label: Label
    kind: Kind = "pii"
    min_score: float = 0.6
    scope: tuple[ProseOrPointer, ...] = ("prose",)
    action: Action = "hash"
    mode: Mode = "act"
    reason: Said
    owner: Said


class Keep(_Strict):
    """JSON pointers (with `*` for one step) whose values are provably left untouched."""

    id: RuleId
    scope: tuple[Pointer, ...]
    reason: Said


class Allow(_Strict):
    """A value or pattern that is no finding; past `expires` it no longer acts."""

    value: str | None = None
    pattern: str | None = None
    reason: Said
    expires: date | None = None

    @model_validator(mode="after")
    def _one_of(self) -> "Allow":
        if (self.value is None) == (self.pattern is None):
            raise ValueError("give either `value` or `pattern`")
        return self


class Ruleset(_Strict):
    """A whole ruleset; `extends: default` starts from the built-in rules."""

    name: str
    version: str
    extends: Literal["default"] | None = None
    rules: tuple[Rule, ...] = ()
    fields: tuple[FieldRule, ...] = ()
    recognizers: tuple[Recognizer, ...] = ()
    keep: tuple[Keep, ...] = ()
    allow: tuple[Allow, ...] = ()

    def in_mode(self, mode: Mode) -> "Ruleset":
        """The ruleset with those of its rules only that are in `mode`."""
        kept = {
            kind: tuple(rule for rule in getattr(self, kind) if rule.mode == mode)
            for kind in ("rules", "fields", "recognizers")
        }
        return self.model_copy(update=kept)

    @property
    def declared(self) -> tuple[Rule | FieldRule | Recognizer, ...]:
        """Whatever finds something: rules, fields and recognizers."""
        return (*self.rules, *self.fields, *self.recognizers)

    @property
    def has_shadow(self) -> bool:
        """Whether any rule is in shadow."""
        return any(rule.mode == "shadow" for rule in self.declared)
