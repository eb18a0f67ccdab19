"""What a row's own rules, or newer ones, still find in the row: nothing, if all is well."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pipeline.errors import LakeError
from pipeline.lake.documents import load_ruleset_document, stored_rulesets
from pipeline.lake.store import Store
from redactors import KeyRing, Redactor, RedactorsError, Ruleset, parse_document, ruleset_digest
from redactors.engine import labels_of

IDENTIFIERS: Final = (
    "event_id",
    "run_id",
    "parent_run_id",
    "retry_of",
    "kind_name",
    "name",
    "call_id",
    "idempotency_key",
    "requested_class",
)
"""The columns of `events` that hold names and ids as the producer sent them."""


class LeakCheck:
    """Redacts stored rows again; what that would change was missed or undone.

    `newer` are the rules of today (None: not asked for); without the keys, keyed masks are taken
    for text, which no rule should find anything in either.
    """

    def __init__(self, store: Store, keys: KeyRing | None, newer: Ruleset | None) -> None:
        self._store, self._keys = store, keys
        self._rulesets: dict[str, Ruleset | None] = {}
        self._redactors: dict[tuple[str, frozenset[str]], Redactor | None] = {}
        self._kept: frozenset[str] | None = None
        self._newer = ruleset_digest(newer) if newer is not None else ""
        if newer is not None:
            self._rulesets[self._newer] = newer

    def check(self, table: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """(code, rule) of every finding in one row; dead letters hold no payload."""
        if table not in _FINDS:
            return
        rules_finding, labels = _FINDS[table], self._foreign_labels(row)
        own = self._redactor(row["ruleset"], labels)
        if own is None:
            yield "rules-unusable", row["ruleset"]
        elif found := rules_finding(own, row):
            is_older = table == "runs" and self._is_of_older_rules(row, labels)
            yield from (("newer-rule-finds" if is_older else "rule-finds", r) for r in found)
        if self._newer and self._newer != row["ruleset"]:
            newer = self._redactor(self._newer, labels)
            later = rules_finding(newer, row) if newer is not None else ()
            yield from (("newer-rule-finds", rule) for rule in later)

    def _is_of_older_rules(self, record: Mapping[str, Any], labels: frozenset[str]) -> bool:
        """Whether what a record's own rules find may have been said under others of this lake.

        A record names the rules in force at its end, and holds what was masked until then.
        """
        others = (d for d in stored_rulesets(self._store) if d != record["ruleset"])
        redactors = (self._redactor(digest, labels) for digest in others)
        return any(each is not None and not _finding_in_record(each, record) for each in redactors)

    def _foreign_labels(self, row: Mapping[str, Any]) -> frozenset[str]:
        """The labels of masks that other rulesets of this lake may have left in a row that was
        masked again: those that it declares; a record does not tell, so that it may be any."""
        if self._kept is None:
            found = [self._ruleset(digest) for digest in stored_rulesets(self._store)]
            self._kept = frozenset(label for each in found if each for label in labels_of(each))
        if "body" not in row:
            return self._kept
        return self._kept.intersection(each["label"] for each in row["redactions"] or ())

    def _redactor(self, digest: str, labels: frozenset[str]) -> Redactor | None:
        ruleset = self._ruleset(digest)
        if ruleset is None:
            return None
        key = digest, labels - labels_of(ruleset)
        if key not in self._redactors:
            try:
                self._redactors[key] = Redactor(ruleset, self._keys, labels=key[1])
            except RedactorsError:
                self._redactors[key] = None
        return self._redactors[key]

    def _ruleset(self, digest: str) -> Ruleset | None:
        if digest not in self._rulesets:
            try:
                ruleset = parse_document(load_ruleset_document(self._store, digest))
                self._rulesets[digest] = ruleset
            except (LakeError, RedactorsError):
                self._rulesets[digest] = None
        return self._rulesets[digest]


def _finding_in_event(redactor: Redactor, row: Mapping[str, Any]) -> set[str]:
    """Ids of the rules that find something in the body or in a name of the row."""
    producer = row["producer"] or {}
    names = {name: row[name] for name in IDENTIFIERS}
    names |= {f"producer_{key}": value for key, value in producer.items()}
    return _rules_finding(redactor, [row["body"]], names)


def _finding_in_record(redactor: Redactor, row: Mapping[str, Any]) -> set[str]:
    """Ids of the rules that find something in what a record says, or in its run's names."""
    said = [text for name in SAID for text in _texts(row[name])]
    documents = [text for text in said if _is_document(text)]
    documents.append(json.dumps([text for text in said if not _is_document(text)]))
    names = {"run_id": row["run_id"]}
    names |= {name: row["identity"][name] for name in ("parent_run_id", "retry_of")}
    return _rules_finding(redactor, documents, names)


SAID: Final = (
    "code", "policy", "environment", "task", "integrations", "models", "outputs", "authority",
    "handling",
)  # fmt: skip
"""The rows of a record that hold what events said."""


def _texts(value: Any) -> Iterator[str]:
    """Every text in a part of a record, but for the ids and digests of its evidence."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and "is_embedded" not in value:
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _is_document(text: str) -> bool:
    """Whether a text is JSON, and not a mask, which begins like a list."""
    try:
        return text[:1] in ("{", "[") and isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _rules_finding(
    redactor: Redactor, documents: list[str], names: Mapping[str, str | None]
) -> set[str]:
    try:
        body = [found for text in documents for found in redactor.redact_json(text).redactions]
        _, renamed = redactor.redact_identifiers(
            {name: value for name, value in names.items() if value is not None}
        )
    except RedactorsError:
        return {"unexaminable"}
    return {redaction.rule for redaction in (*body, *renamed)}


_FINDS: Final[Mapping[str, Callable[[Redactor, Mapping[str, Any]], set[str]]]] = {
    "events": _finding_in_event,
    "runs": _finding_in_record,
}
