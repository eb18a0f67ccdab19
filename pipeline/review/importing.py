"""Makes a ruleset of other tools' rules; whatever cannot be carried over is listed.

Nothing is carried over that would mask less than ours do: the result extends the built-in rules,
its ids are its own, and allow-lists of others are for a person to decide.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from pipeline.errors import InputError, UsageError
from redactors import RulesetError
from redactors.compiled import matcher_of
from redactors.ruleset import Rule

# What detect-secrets' detectors look for is looked for by these rules.
DETECTORS: Final[Mapping[str, str]] = {
    "AWSKeyDetector": "aws-access-key-id",
    "BasicAuthDetector": "url-userinfo",
    "GitHubTokenDetector": "github-token",
    "GitLabTokenDetector": "gitlab-token",
    "KeywordDetector": "field-secret",
    "PrivateKeyDetector": "private-key-pem",
}
_CAPTURES: Final = r"\((?!\?)|\(\?P?<"
_FLAGS: Final = "(?is)"  # what Presidio compiles its patterns with, but for lines


@dataclass(slots=True)
class Imported:
    """A ruleset document, and what of the source is not in it, a sentence each."""

    name: str
    owner: str
    rules: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def document(self) -> str:
        """The ruleset as YAML; its rules have no examples yet, which `rules check` asks for."""
        head = {"name": self.name, "version": "1", "extends": "default"}
        body = {"rules": self.rules} if self.rules else {}
        return yaml.safe_dump(head | body, sort_keys=False, allow_unicode=True, width=96)

    def add(self, name: str, wanted: Mapping[str, Any]) -> bool:
        """Adds a rule if it is one in our terms; says whether, and lists it otherwise."""
        rule_id = self._free(f"{self.name}-{_kebab(name)}")
        rule = {"id": rule_id, **wanted, "owner": self.owner, "matches": []}
        try:
            matcher_of(Rule.model_validate_json(json.dumps(rule | {"owner": "any"})))
        except RulesetError as error:
            self.left.append(f"rule {name}: {error.reason.removeprefix(f'{rule_id}: ')}")
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            self.left.append(f"rule {name}: {'.'.join(map(str, first['loc']))}: {first['msg']}")
        else:
            self.rules.append(rule)
            return True
        return False

    def _free(self, wanted: str) -> str:
        taken = {rule["id"] for rule in self.rules}
        free, number = wanted, 2
        while free in taken:
            free, number = f"{wanted}-{number}", number + 1
        return free


def import_rules(path: Path, source: str, owner: str) -> Imported:
    """The rules in `path` as `source` ("gitleaks", "presidio" or "detect-secrets") writes them."""
    read = _SOURCES.get(source)
    if read is None:
        known = ", ".join(_SOURCES)
        raise UsageError(f"rules of {source} are not known", code="no-such-source", hint=known)
    imported = Imported(source, owner)
    try:
        read(path.read_text(encoding="utf-8"), imported)
    except (ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError):
        raise InputError(
            f"{path} is no file of rules that {source} would read",
            code="bad-source",
            hint="say with --from what it is",
        ) from None
    return imported


def _kebab(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _gitleaks(text: str, imported: Imported) -> None:
    document = tomllib.loads(text)
    for key in sorted(document.keys() - {"title", "description", "minVersion", "rules"}):
        imported.left.append(f"{key}: decide yourself what to do about it")
    for rule in document["rules"]:
        name, pattern = str(rule["id"]), rule.get("regex")
        if pattern is None:
            imported.left.append(f"rule {name}: it looks at paths of files only")
            continue
        wanted = {
            "kind": "secret",
            "label": "SECRET",
            "pattern": pattern,
            "keywords": [word.lower() for word in rule.get("keywords", ())],
            "group": rule.get("secretGroup") or _group(pattern),
            "min_entropy": float(rule["entropy"]) if rule.get("entropy") else None,
            "reason": rule.get("description") or name,
        }
        carried = {"id", "regex", "keywords", "secretGroup", "entropy", "description", "tags"}
        if imported.add(name, {k: v for k, v in wanted.items() if v not in (None, [], 0)}):
            lost = sorted(rule.keys() - carried)
            imported.left += [f"rule {name}: its `{key}`" for key in lost]


def _group(pattern: str) -> int:
    """The group to mask where none is named: the only one, if every match has it; else all.

    The tool takes the first group that is not empty, so that what is masked here is never less.
    """
    bare = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", pattern, flags=re.DOTALL)
    if len(re.findall(_CAPTURES, bare)) != 1:
        return 0
    opened = [(False, False)]  # whether it is the group, and whether the group is inside
    forked = [False]
    for at, character in enumerate(bare):
        if character == "(":
            opened.append((re.match(_CAPTURES, bare[at:]) is not None, False))
            forked.append(False)
        elif character == "|":
            forked[-1] = True
        elif character == ")" and len(opened) > 1:
            is_group, holds_it = opened.pop()
            is_forked = forked.pop()
            may_go = re.match(r"[?*]|\{0", bare[at + 1 :]) is not None or (is_forked and holds_it)
            if (is_group or holds_it) and may_go:
                return 0
            opened[-1] = (opened[-1][0], opened[-1][1] or is_group or holds_it)
    return 0 if forked[0] else 1


def _presidio(text: str, imported: Imported) -> None:
    document = yaml.safe_load(text)
    for key in sorted(document.keys() - {"recognizers"}):
        imported.left.append(f"{key}: decide yourself what to do about it")
    for recognizer in document["recognizers"]:
        if isinstance(recognizer, str) or recognizer.get("type") == "predefined":
            name = recognizer if isinstance(recognizer, str) else recognizer["name"]
            imported.left.append(f"recognizer {name}: it is code, not a pattern")
            continue
        if recognizer.get("enabled") is False:
            imported.left.append(f"recognizer {recognizer['name']}: it is switched off")
            continue
        name, entity = str(recognizer["name"]), str(recognizer["supported_entity"])
        wanted = {
            "kind": "pii",
            "label": re.sub(r"[^A-Z0-9]+", "_", entity.upper()).strip("_"),
            "action": "hash",
            "reason": f"{entity}, as {name} finds it",
        }
        for each in recognizer.get("patterns") or ():
            named = f"{name}-{each['name']}"
            if imported.add(named, {**wanted, "pattern": _FLAGS + each["regex"]}):
                imported.left.append(f"rule {named}: its score of {each['score']}")
        words = recognizer.get("deny_list") or ()
        if words:
            listed = "|".join(re.escape(str(word)) for word in words)
            imported.add(f"{name}-words", {**wanted, "pattern": rf"{_FLAGS}\b(?:{listed})\b"})
        carried = {"name", "supported_entity", "patterns", "deny_list", "type", "enabled"}
        lost = sorted(recognizer.keys() - carried)
        imported.left += [f"recognizer {name}: its `{key}`" for key in lost]


def _detect_secrets(text: str, imported: Imported) -> None:
    baseline = json.loads(text)
    for plugin in baseline["plugins_used"]:
        if plugin["name"] not in DETECTORS:
            imported.left.append(f"plugin {plugin['name']}: compare with `redactory rules list`")
    for each in baseline.get("filters_used", ()):
        imported.left.append(f"filter {each['path']}: it would mask less")
    for file, secrets in baseline.get("results", {}).items():
        imported.left.append(f"{file}: {len(secrets)} findings, of which only hashes are known")
    for key in sorted(baseline.keys() - {"version", "plugins_used", "filters_used", "results"}):
        if key != "generated_at":
            imported.left.append(f"{key}: decide yourself what to do about it")


_SOURCES: Final[Mapping[str, Callable[[str, Imported], None]]] = {
    "gitleaks": _gitleaks,
    "presidio": _presidio,
    "detect-secrets": _detect_secrets,
}
