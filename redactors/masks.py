"""Masks: what stands in the place of a finding, and how a genuine one is told from text like it.

    [LABEL]   [LABEL:len=40]   [LABEL:<key id>:<16 base32>]   each also with #2 … in an object key

Of the 16 base32 characters the first 12 (60 bits) name the value, the last 4 are a keyed
checksum.  A mask is genuine if its label is the ruleset's and, where it carries a key id, the key
is in the ring and the checksum right: anything else that looks like a mask is text.
"""

import base64
import re
from collections.abc import Iterable
from typing import Final

from redactors.keys import KeyRing

ID_LABEL: Final = "ID"
BLOB_LABEL: Final = "BLOB"
SUBJECT_LABEL: Final = "SUBJECT"

# Every count is bounded, so the cost at each `[` is; `%5B` and so on are a percent-encoded mask.
_BODY: Final = (
    r"([A-Z][A-Z0-9_]{0,40}+)"
    r"(?:(?::|%3[Aa])(?:len(?:=|%3[Dd])[0-9]{1,8}+"
    r"|([a-z0-9]{1,16}+)(?::|%3[Aa])([A-Z2-7]{12})([A-Z2-7]{4})))?"
    r"(?:(?:#|%23)[0-9]{1,4}+)?(?:\]|%5[Dd])"
)
_MASK: Final = re.compile(rf"\[{_BODY}")  # a search for a character is fast, for either is not
_ENCODED_MASK: Final = re.compile(rf"%5[Bb]{_BODY}")
_BLANK: Final = "\x1a"  # SUBSTITUTE: no letter, digit, space or quote to any pattern
_LABEL: Final = re.compile(r"[A-Z][A-Z0-9_]{0,40}")


class Masks:
    """Writes masks under the current key and recognises those of every key in the ring."""

    def __init__(self, labels: Iterable[str], keys: KeyRing | None) -> None:
        self.labels: Final = frozenset({*labels, ID_LABEL, BLOB_LABEL, SUBJECT_LABEL})
        self._keys = keys

    @property
    def keyed(self) -> bool:
        """Whether there is a key to hash under."""
        return self._keys is not None

    def plain(self, label: str) -> str:
        """`[LABEL]`."""
        return f"[{label}]"

    def measured(self, label: str, length: int) -> str:
        """`[LABEL:len=<length>]`."""
        return f"[{label}:len={length}]"

    def hashed(self, label: str, value: bytes) -> str:
        """`[LABEL:<key id>:<16 base32>]`: equal for equal values under one key and label."""
        if self._keys is None:
            return self.plain(label)
        if not _LABEL.fullmatch(label):
            raise ValueError("a label is capitals, digits and _, at most 41 of them")
        key_id = self._keys.current
        name = _base32(self._keys.digest(key_id, "pseudonym", label.encode(), value), 12)
        return f"[{label}:{key_id}:{name}{self._checksum(key_id, label, name)}]"

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the genuine masks of `text` stand, in order."""
        found: list[tuple[int, int]] = []
        if "[" in text:
            found += [match.span() for match in _MASK.finditer(text) if self._genuine(match)]
        if "%5" in text:
            encoded = _ENCODED_MASK.finditer(text)
            found = sorted(found + [match.span() for match in encoded if self._genuine(match)])
        return found

    def is_mask(self, text: str) -> bool:
        """Whether `text` is one genuine mask and nothing else."""
        match = (_MASK if text.startswith("[") else _ENCODED_MASK).fullmatch(text)
        return match is not None and self._genuine(match)

    def blanked(self, text: str) -> str:
        """`text` with every genuine mask overwritten, so that no rule can read its label."""
        spans = self.spans(text)
        if not spans:
            return text
        pieces: list[str] = []
        position = 0
        for start, end in spans:
            pieces += (text[position:start], _BLANK * (end - start))
            position = end
        return "".join((*pieces, text[position:]))

    def _genuine(self, match: re.Match[str]) -> bool:
        label, key_id, name, checksum = match.groups()
        if key_id is None:
            return label in self.labels
        if self._keys is None or key_id not in self._keys.keys:
            return False
        return self._checksum(key_id, label, name) == checksum

    def _checksum(self, key_id: str, label: str, name: str) -> str:
        assert self._keys is not None
        digest = self._keys.digest(key_id, "mask-checksum", label.encode(), name.encode())
        return _base32(digest, 4)


def _base32(digest: bytes, length: int) -> str:
    return base64.b32encode(digest[: (length + 7) // 8 * 5]).decode()[:length]
