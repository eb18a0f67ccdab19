"""Errors of the redaction library.

RedactorsError
├── RulesetError      a ruleset that cannot be loaded: names file and line, never a matched text
├── KeyRingError      a key ring that is missing, unreadable, or open to others
└── Unexaminable      a payload that cannot be fully examined (`code` says why); fail closed
"""

from collections.abc import Mapping
from typing import Final

UNEXAMINABLE_CODES: Final[Mapping[str, str]] = {
    "not-json": "the body is not JSON text that can be examined",
    "not-utf-8": "the text is not UTF-8",
    "too-deep": "the body is nested more deeply than is examined",
    "too-large": "the body is larger than is examined",
    "too-dense": "more places look like secrets than are examined one by one",
}
"""Every code of `Unexaminable`, with what it means."""


class RedactorsError(Exception):
    """Root of every error raised by `redactors`; messages never hold payload."""


class RulesetError(RedactorsError):
    """A ruleset cannot be loaded; the start must stop.

    `source` is the file the mistake stands in, `line` its 1-based line (None: unknown).
    """

    def __init__(self, reason: str, *, source: str = "<ruleset>", line: int | None = None) -> None:
        self.reason, self.source, self.line = reason, source, line
        super().__init__(f"{source}:{line}: {reason}" if line else f"{source}: {reason}")


class KeyRingError(RedactorsError):
    """The key ring cannot be used."""


class Unexaminable(RedactorsError):
    """A payload that no rule could be applied to in full; `code` is one of `UNEXAMINABLE_CODES`."""

    def __init__(self, code: str) -> None:
        assert code in UNEXAMINABLE_CODES, code
        self.code = code
        super().__init__(f"payload cannot be examined: {code}")
