"""What a row's own rules, or newer ones, still find in the row: nothing, if all is well."""

from collections.abc import Iterator, Mapping
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
        """(code, rule) of every finding in one row of `events`; other tables hold no payload."""
        if table != "events":
            return
        own = self._redactor(row["ruleset"])
        if own is None:
            yield "rules-unusable", row["ruleset"]
        else:
            yield from (("rule-finds", rule) for rule in _rules_finding(own, row))
        newer = self._by_digest.get(self._newer_digest) if self._newer_digest else None
        if newer is not None and self._newer_digest != row["ruleset"]:
            yield from (("newer-rule-finds", rule) for rule in _rules_finding(newer, row))

    def _redactor(self, digest: str) -> Redactor | None:
        if digest not in self._by_digest:
            try:
                ruleset = parse_document(load_ruleset_document(self._store, digest))
                self._by_digest[digest] = Redactor(ruleset, self._keys)
            except (LakeError, RedactorsError):
                self._by_digest[digest] = None
        return self._by_digest[digest]


def _rules_finding(redactor: Redactor, row: Mapping[str, Any]) -> set[str]:
    """Ids of the rules that find something in the body or in a name of the row."""
    producer = row["producer"] or {}
    names = {name: row[name] for name in IDENTIFIERS}
    names |= {f"producer_{key}": value for key, value in producer.items()}
    try:
        body = redactor.redact_json(row["body"]).redactions
        _, renamed = redactor.redact_identifiers(
            {name: value for name, value in names.items() if value is not None}
        )
    except RedactorsError:
        return {"unexaminable"}
    return {redaction.rule for redaction in (*body, *renamed)}
