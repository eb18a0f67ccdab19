"""Opaque tokens: text that looks drawn at random rather than written."""

import re
from itertools import pairwise
from typing import Final

from redactors.validators.letters import wordlikeness
from redactors.validators.real import real

_CHUNK: Final = re.compile(r"[A-Za-z0-9]++")
_RUN: Final = re.compile(r"[A-Za-z]++|[0-9]++")
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_SERIAL: Final = re.compile(r"[A-Za-z0-9]{4,16}+(?:-[A-Za-z0-9]{4,16}+){3,8}+")
_HEX: Final = re.compile(r"[0-9a-fA-F]++")
_DATE: Final = re.compile(r"(?:19|20)[0-9][0-9]-?[01][0-9]-?[0-3][0-9]")


def opaque(text: str) -> bool:
    """Whether `text` is a UUID, a serial, or at least half made of random-looking runs."""
    if not real(text):
        return False
    if is_uuid(text) or _is_serial(text):
        return True
    chunks = _CHUNK.findall(_DATE.sub("-", text))
    total = sum(map(len, chunks))
    random = sum(len(chunk) for chunk in chunks if _random(chunk))
    return (random >= 8 and 2 * random >= total) or _all_kinds("".join(chunks))


def is_uuid(text: str) -> bool:
    """Whether `text` has the grammar of a UUID (RFC 9562)."""
    return _UUID.fullmatch(text) is not None


def _is_serial(text: str) -> bool:
    """Groups of capitals and digits, as in license keys: `AB12-CD34-EF56-GH78`."""
    if _SERIAL.fullmatch(text) is None or sum(c.isdecimal() for c in text) < 4:
        return False
    return not any(group.isalpha() and wordlikeness(group) > 0.2 for group in text.split("-"))


def _random(chunk: str) -> bool:
    if len(chunk) < 6:
        return False
    runs = _RUN.findall(chunk)
    letters = "".join(run for run in runs if run[0].isalpha())
    if not letters:
        return False
    if _HEX.fullmatch(chunk) and len(chunk) >= (24 if len(letters) == len(chunk) else 16):
        return True
    if len(letters) == len(chunk):
        return len(chunk) >= 8 and _random_letters(letters)
    # `sha256`, `utf8` and `v1beta1` change between letters and digits once or twice.
    if len(runs) >= 4:
        return True
    digits = len(chunk) - len(letters)
    odd = digits >= 4 and wordlikeness(letters) < 0.1
    return len(chunk) >= 12 and (odd or _random_letters(letters))


def _random_letters(letters: str) -> bool:
    humps = sum(a.islower() and b.isupper() for a, b in pairwise(letters))
    bar = -0.6 if humps * 3 < len(letters) - 1 else -0.1
    return wordlikeness(letters) < bar


def _all_kinds(joined: str) -> bool:
    """Capitals, small letters and digits, mixed: base64url cut up by its own `-` and `_`."""
    kinds = any(c.isupper() for c in joined) + any(c.islower() for c in joined)
    return len(joined) >= 16 and kinds == 2 and len(_RUN.findall(joined)) >= 6
