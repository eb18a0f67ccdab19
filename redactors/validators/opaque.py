"""Opaque tokens: text that looks drawn at random rather than written."""

from itertools import pairwise
from typing import Final

import re2

from redactors.validators.letters import wordlikeness
from redactors.validators.real import real

_CHUNK: Final = re2.compile(r"[A-Za-z0-9]+")
_RUN: Final = re2.compile(r"[A-Za-z]+|[0-9]+")
_UUID: Final = re2.compile(r"(?i)^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_HEX: Final = re2.compile(r"^[0-9a-fA-F]+$")
_DATE: Final = re2.compile(r"(?:19|20)\d\d-?[01]\d-?[0-3]\d")


def opaque(text: str) -> bool:
    """Whether at least half of `text` is made of random-looking runs, eight characters or more."""
    if not real(text):
        return False
    if is_uuid(text):
        return True
    chunks = _CHUNK.findall(_DATE.sub("-", text))
    total = sum(map(len, chunks))
    random = sum(len(chunk) for chunk in chunks if _random(chunk))
    return random >= 8 and 2 * random >= total


def is_uuid(text: str) -> bool:
    """Whether `text` has the grammar of a UUID (RFC 9562)."""
    return _UUID.search(text) is not None


def _random(chunk: str) -> bool:
    if len(chunk) < 6:
        return False
    runs = _RUN.findall(chunk)
    letters = sum(len(run) for run in runs if run[0].isalpha())
    if letters == 0:
        return False
    if letters == len(chunk):
        return len(chunk) >= 8 and _random_letters(chunk)
    if len(chunk) >= 16 and _HEX.match(chunk):
        return True
    # `sha256`, `utf8` and `v1beta1` change between letters and digits once or twice.
    if len(runs) >= 5 or (len(runs) >= 4 and len(chunk) <= 12):
        return True
    return len(chunk) >= 12 and _random_letters("".join(r for r in runs if r[0].isalpha()))


def _random_letters(letters: str) -> bool:
    humps = sum(a.islower() and b.isupper() for a, b in pairwise(letters))
    bar = -0.6 if humps * 3 < len(letters) - 1 else -0.1
    return wordlikeness(letters) < bar
