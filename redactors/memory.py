"""What a run has shown in its fields, so that it is masked where it comes up again.

Causal: a value is masked from the event on that showed it in a field.  Only values that are hardly
anything else are remembered: of eight characters or several words, no dictionary words, and a
bounded number of them.  They live in the reader's memory, sealed where they must be written down,
and are gone with the run.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from redactors.compiled import Treatment
from redactors.databases import literal_database
from redactors.errors import KeyRingError
from redactors.keys import KeyRing
from redactors.overlaps import Finding

MAX_VALUES: Final = 128
MAX_VALUE_LENGTH: Final = 256
_MIN_LENGTH: Final = 8
_MIN_FRAGMENT: Final = 3
_MIN_DIGITS: Final = 4
_MIN_VALUES_OF_DATABASE: Final = 12  # it takes as long to make as some hundred looks for a value
_WORDS: Final = re.compile(r"[^\W\d_]+")
# What JSON never writes in another way, so that a piece of a value is found in raw text too.
_PLAIN: Final = re.compile(r"[A-Za-z0-9 !#$&'()*+,.:;<=>?@\[\]^_`{|}~-]+")


@dataclass(frozen=True, slots=True)
class Remembered:
    """The rule of what comes from memory; `id` is `memory:<rule that saw the field>`."""

    id: str
    label: str
    kind: str
    action: str


class RunMemory:
    """The remembered values of one run, oldest first; past the bound the oldest is forgotten."""

    def __init__(self) -> None:
        self._rules: dict[str, Remembered] = {}
        self._database: Any = None
        self._screen: Any = None
        self.version = 0
        """How many values were ever remembered."""

    def __bool__(self) -> bool:
        return bool(self._rules)

    def remember(self, value: str, rule: Treatment) -> None:
        """Remembers what the field rule `rule` masked, if it is telling enough."""
        value = value.strip()
        if value in self._rules or not is_telling(value):
            return
        self._make_room()
        self._rules[value] = Remembered(f"memory:{rule.id}", rule.label, rule.kind, rule.action)
        self._database = self._screen = None
        self.version += 1

    def learn(self, other: "RunMemory") -> None:
        """Takes over what another memory holds, as if it had been remembered here."""
        for value, rule in other._rules.items():
            if value not in self._rules:
                self._make_room()
                self._rules[value] = rule
                self._database = self._screen = None
                self.version += 1

    def _make_room(self) -> None:
        if len(self._rules) >= MAX_VALUES:
            del self._rules[next(iter(self._rules))]

    def ends(self, data: bytes) -> list[int]:
        """Where in UTF-8 `data` remembered values end."""
        if self._database is None:
            values = [value.encode("utf-8", "surrogatepass") for value in self._rules]
            if len(values) < _MIN_VALUES_OF_DATABASE:
                return [end for value in values for end in _ends_of(value, data)]
            self._database = literal_database(values)
        ends: list[int] = []
        self._database.scan(data, match_event_handler=_note, context=ends)
        return ends

    def find(self, text: str) -> Iterator[Finding]:
        """Where remembered values stand in `text`, at word boundaries."""
        for value, rule in self._rules.items():
            at = text.find(value)
            while at >= 0:
                end = at + len(value)
                if not (_joins(text, at) or _joins(text, end)):
                    yield Finding(at, end, rule)
                at = text.find(value, end)

    def may_hold(self, raw: bytes) -> bool:
        """Whether the JSON text `raw` may hold a remembered value; never wrongly False."""
        if len(self._rules) < _MIN_VALUES_OF_DATABASE:
            lowered = raw.lower()
            return any(f.lower() in lowered for value in self._rules for f in _fragments(value))
        if self._screen is None:
            fragments = [fragment for value in self._rules for fragment in _fragments(value)]
            self._screen = literal_database(fragments, caseless=True)
        ends: list[int] = []
        self._screen.scan(raw, match_event_handler=_note, context=ends)
        return bool(ends)

    def repeats(self, raw: str, since: int) -> bool:
        """Whether a value remembered after version `since` may stand in `raw` more than once."""
        new = list(self._rules)[len(self._rules) - min(self.version - since, len(self._rules)) :]
        if not new:
            return False
        data = raw.encode("utf-8", "surrogatepass").lower()
        return any(
            sum(data.count(fragment.lower()) for fragment in _fragments(value)) > 1 for value in new
        )

    def seal(self, keys: KeyRing, run_id: str) -> bytes:
        """The memory encrypted (AES-SIV, RFC 5297), bound to `run_id`; equal for equal memory."""
        entries = [[v, r.id, r.label, r.kind, r.action] for v, r in self._rules.items()]
        data = json.dumps(entries, separators=(",", ":")).encode()
        sealed = AESSIV(_sealing_key(keys, keys.current)).encrypt(data, [run_id.encode()])
        return keys.current.encode() + b":" + sealed

    @classmethod
    def unseal(cls, sealed: bytes, keys: KeyRing, run_id: str) -> "RunMemory":
        """What `seal` sealed; raises KeyRingError if the key is gone or the bytes are not its."""
        key_id, _, data = sealed.partition(b":")
        name = key_id.decode("ascii", "replace")
        if name not in keys.keys:
            raise KeyRingError("the key that a run's memory is sealed with is not in the key ring")
        try:
            entries = json.loads(AESSIV(_sealing_key(keys, name)).decrypt(data, [run_id.encode()]))
        except (InvalidTag, ValueError):
            raise KeyRingError("a run's sealed memory is damaged, or another run's") from None
        memory = cls()
        for value, *rule in entries:
            memory._rules[value] = Remembered(*rule)
        return memory


def is_telling(value: str) -> bool:
    """Whether `value` can be masked wherever it stands without masking ordinary text."""
    if len(value) > MAX_VALUE_LENGTH or not _fragments(value):
        return False
    if len(value) < _MIN_LENGTH and len(value.split()) < 2:
        return False
    if sum(map(str.isdigit, value)) >= _MIN_DIGITS:
        return True
    words = (word.lower() for word in _WORDS.findall(value))
    return any(len(word) > 1 and word not in common_words() for word in words)


@cache
def common_words() -> frozenset[str]:
    """Words that are no secret of anybody."""
    return frozenset((resources.files("redactors") / "common_words.txt").read_text().split())


def _fragments(value: str) -> list[bytes]:
    """Literals of which one stands in every JSON text that holds `value`, in any case."""
    plain = max(_PLAIN.findall(value), key=len, default="")
    if len(plain) >= _MIN_FRAGMENT:
        return [plain.encode()]
    foreign = next((c for c in value if not c.isascii()), None)
    if foreign is None:
        return []
    unit = int.from_bytes(foreign.encode("utf-16-be", "surrogatepass")[:2], "big")
    return [foreign.encode("utf-8", "surrogatepass"), f"u{unit:04x}".encode()]


def _joins(text: str, at: int) -> bool:
    """Whether the characters on both sides of `at` belong to one word."""
    return 0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _note(_index: int, _start: int, end: int, _flags: int, ends: list[int]) -> None:
    ends.append(end)


def _ends_of(value: bytes, data: bytes) -> Iterator[int]:
    at = data.find(value)
    while at >= 0:
        yield at + len(value)
        at = data.find(value, at + 1)


def _sealing_key(keys: KeyRing, key_id: str) -> bytes:
    return keys.digest(key_id, "memory-seal-mac") + keys.digest(key_id, "memory-seal-cipher")
