"""The redactor: a ruleset and a key ring, applied to JSON, text and identifiers.

    walk the JSON → field rules by name → pattern rules over all leaves → overlaps → actions
    → look again until nothing is left to mask → put the masks into the original text

Deterministic: the same text, ruleset, keys and memory give the same result.  The text outside the
declared spans stays byte for byte what it was, and redacting a result changes nothing.
"""

import re
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final

from redactors.compiled import Treatment, compile_ruleset
from redactors.edits import Mark, apply
from redactors.errors import KeyRingError, Unexaminable
from redactors.examination import Examination
from redactors.keys import KeyRing
from redactors.loader import ruleset_digest
from redactors.masks import ID_LABEL, Masks
from redactors.memory import RunMemory
from redactors.ruleset import Mode, Ruleset
from redactors.second_look import SecondLook
from redactors.types import Redacted, Redaction

MAX_LENGTH: Final = 64 * 1024 * 1024
"""Code points of a payload; a longer one is not examined."""

# What an identifier may look like: UUIDs, hashes, numbers, names with paths and versions.
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:/+=~-]{0,255}")


class Redactor:
    """Masks secrets and personal data; safe to share between threads, which then take turns.

    >>> redactor = Redactor(load_ruleset(), keys)
    >>> redactor.redact_json('{"password": "…"}').text
    '{"password": "[PASSWORD]"}'

    Without keys only secrets are masked: personal data is left to who holds a key.
    """

    def __init__(
        self,
        ruleset: Ruleset,
        keys: KeyRing | None,
        *,
        by: str = "pipeline",
        labels: Iterable[str] = (),
        mode: Mode = "act",
    ) -> None:
        """`labels` are those of other rulesets whose masks stand in what is redacted again.

        Only rules that are in `mode` are applied; the masks of all are recognised.
        """
        self._keys, self._by = keys, by
        self._masks = masks_of(ruleset, keys, labels)
        self._compiled = compile_ruleset(ruleset.in_mode(mode), self._masks)
        self._second_look = SecondLook(self._compiled)
        self._lock = Lock()
        self.digest = ruleset_digest(ruleset)

    @property
    def key_id(self) -> str:
        """The id of the key that masks are written under; "" without keys."""
        return self._keys.current if self._keys else ""

    @property
    def masks(self) -> Masks:
        """Writes and recognises masks under this redactor's rules and keys."""
        return self._masks

    def redact_json(self, body: str, memory: RunMemory | None = None) -> Redacted:
        """Masks a JSON text; raises Unexaminable if it cannot be examined in full."""
        _check_size(body)
        with self._lock:
            if self._is_clean(body, memory):
                return Redacted(body, ())
            return self._redacted_in_full(body, memory)

    def _is_clean(self, body: str, memory: RunMemory | None) -> bool:
        """Whether one look at the text as a whole shows that nothing in it can change."""
        screen = self._compiled.screen
        if screen is None or not screen.passes(body, self._second_look.refutes):
            return False
        return not memory or not memory.may_hold(body.encode())

    def _redacted_in_full(self, body: str, memory: RunMemory | None) -> Redacted:
        edits, changes = self._examination(memory).document(body)
        redactions = [
            self._redaction(mark, change.path) for change in changes for mark in change.marks
        ]
        return Redacted(apply(body, edits), tuple(redactions)) if edits else Redacted(body, ())

    def redact_text(self, text: str, memory: RunMemory | None = None) -> Redacted:
        """Masks a text; one that is a JSON document stays one.  Paths are ""."""
        _check_size(text)
        with self._lock:
            edits = self._examination(memory).text(text)
        redactions = [self._redaction(mark, "") for edit in edits for mark in edit.marks]
        return Redacted(apply(text, edits), tuple(redactions)) if edits else Redacted(text, ())

    def redact_identifiers(
        self, columns: Mapping[str, str]
    ) -> tuple[dict[str, str], tuple[Redaction, ...]]:
        """Keeps each value that looks like an identifier and holds no secret; hashes the others.

        Without a key they are masked.  A redaction's path is the column's name.
        """
        values = list(columns.values())
        with self._lock:
            secret = self._examination(None).secrets_among(values)
        kept: dict[str, str] = {}
        redactions: list[Redaction] = []
        for index, (column, value) in enumerate(columns.items()):
            stays = not value or (index not in secret and _IDENTIFIER.fullmatch(value))
            kept[column] = value if stays else self.pseudonym(value, ID_LABEL)
            if kept[column] != value:
                action = "hash" if self._keys else "mask"
                redactions.append(Redaction(column, "identifier", ID_LABEL, action, by=self._by))
        return kept, tuple(redactions)

    def pseudonym(self, value: str, label: str) -> str:
        """`[LABEL:<key id>:<16 base32>]`, the same for the same value; a mask stays as it is."""
        data = value.encode("utf-8", "surrogatepass")
        return value if self._masks.is_mask(value) else self._masks.hashed(label, data)

    def keyed_hash(self, data: bytes) -> str:
        """HMAC-SHA-256 of `data` in hex; raises KeyRingError without a key."""
        if self._keys is None:
            raise KeyRingError("a keyed hash needs a key")
        return self._keys.digest(self._keys.current, "payload", data).hex()

    def _examination(self, memory: RunMemory | None) -> Examination:
        # Without a run's memory, what a field shows is remembered within its own payload.
        return Examination(self._compiled, self._masks, RunMemory() if memory is None else memory)

    def _redaction(self, mark: Mark, path: str) -> Redaction:
        return Redaction(
            path=path,
            rule=mark.rule,
            label=mark.label,
            action=mark.action,
            span_start=mark.start,
            span_end=mark.end,
            length=mark.length,
            layers=mark.layers,
            by=self._by,
        )


def labels_of(ruleset: Ruleset) -> frozenset[str]:
    """The labels of its masks."""
    every: tuple[Treatment, ...] = (*ruleset.rules, *ruleset.fields, *ruleset.recognizers)
    return frozenset(rule.label for rule in every)


def masks_of(ruleset: Ruleset, keys: KeyRing | None, labels: Iterable[str] = ()) -> Masks:
    """The masks that a redactor with these rules and keys writes and recognises."""
    return Masks(labels_of(ruleset).union(labels), keys)


def _check_size(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise Unexaminable("too-large")
