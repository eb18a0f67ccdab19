"""Pure redaction: rules find, actions change, scopes say where."""

from redactors.engine import Redactor
from redactors.errors import KeyRingError, RedactorsError, RulesetError, Unexaminable
from redactors.keys import KeyRing, load_or_create_keys
from redactors.loader import load_ruleset, parse_document, ruleset_digest, ruleset_document
from redactors.memory import RunMemory
from redactors.ruleset import Ruleset
from redactors.types import Redacted, Redaction

__all__ = [
    "KeyRing",
    "KeyRingError",
    "Redacted",
    "Redaction",
    "Redactor",
    "RedactorsError",
    "Ruleset",
    "RulesetError",
    "RunMemory",
    "Unexaminable",
    "load_or_create_keys",
    "load_ruleset",
    "parse_document",
    "ruleset_digest",
    "ruleset_document",
]
