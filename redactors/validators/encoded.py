"""Base64 text: keys of random bytes, and encoded user names with passwords."""

import base64
import binascii

from redactors.validators.entropy import entropy_bits
from redactors.validators.letters import wordlikeness
from redactors.validators.opaque import opaque
from redactors.validators.real import real


def base64_key(text: str) -> bool:
    """Whether `text` is base64 of random bytes: digits, both cases, and no words or path."""
    kinds = any(c.isdecimal() for c in text) + any(c.islower() for c in text)
    kinds += any(c.isupper() for c in text)
    random = kinds == 3 and entropy_bits(text) > 4 and wordlikeness(text) < 0.3
    return random and text.count("/") < 6 and real(text)


def decoded_pair(text: str) -> bool:
    """Whether `text` decodes to printable `user:password` (RFC 7617)."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def basic_auth(text: str) -> bool:
    """Whether `text` decodes to `user:password`, or is an opaque token instead."""
    return decoded_pair(text) or opaque(text)
