"""What a row's own rules, or newer ones, still find in the row: nothing, if all is well."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pipeline.errors import LakeError
from pipeline.lake.documents import load_ruleset_document
from pipeline.lake.store import Store
from redactors import KeyRing, Redactor, RedactorsError, Ruleset, parse_document, ruleset_digest

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
        self._by_digest: dict[str, Redactor | None] = {}
        self._newer_digest = ruleset_digest(newer) if newer is not None else None
        if newer is not None and self._newer_digest is not None:
            self._by_digest[self._newer_digest] = Redactor(newer, keys)

    def check(self, table: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """(code, rule) of every finding in one row; dead letters hold no payload."""
        if table not in _FINDS:
            return
        rules_finding = _FINDS[table]
        own = self._redactor(row["ruleset"])
        if own is None:
            yield "rules-unusable", row["ruleset"]
        else:
            yield from (("rule-finds", rule) for rule in rules_finding(own, row))
        newer = self._by_digest.get(self._newer_digest) if self._newer_digest else None
        if newer is not None and self._newer_digest != row["ruleset"]:
            yield from (("newer-rule-finds", rule) for rule in rules_finding(newer, row))

    def _redactor(self, digest: str) -> Redactor | None:
        if digest not in self._by_digest:
            try:
                ruleset = parse_document(load_ruleset_document(self._store, digest))
                self._by_digest[digest] = Redactor(ruleset, self._keys)
            except (LakeError, RedactorsError):
                self._by_digest[digest] = None
        return self._by_digest[digest]


def _finding_in_event(redactor: Redactor, row: Mapping[str, Any]) -> set[str]:
    """Ids of the rules that find something in the body or in a name of the row."""
    producer = row["producer"] or {}
    names = {name: row[name] for name in IDENTIFIERS}
    names |= {f"producer_{key}": value for key, value in producer.items()}
    return _rules_finding(redactor, [row["body"]], names)


def _finding_in_record(redactor: Redactor, row: Mapping[str, Any]) -> set[str]:
    """Ids of the rules that find something in what a record says, or in its run's names."""
    said = [text for name in _SAID for text in _texts(row[name])]
    documents = [text for text in said if _is_document(text)]
    documents.append(json.dumps([text for text in said if not _is_document(text)]))
    names = {"run_id": row["run_id"]}
    names |= {name: row["identity"][name] for name in ("parent_run_id", "retry_of")}
    return _rules_finding(redactor, documents, names)


_SAID: Final = (
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
