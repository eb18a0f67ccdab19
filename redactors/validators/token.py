"""Tokens given next to a name: an opaque text of a secret's length, no identifier of a thing."""

from typing import Final

import re2

from redactors.validators.opaque import opaque
from redactors.validators.real import real

# Identifiers that APIs give to calls, runs and messages; they name a thing and open nothing.
_IDENTIFIER: Final = re2.compile(
    r"^(?:call|toolu|msg|run|req|resp|chatcmpl|cmpl|thread|step|evt|file|asst|batch|sha256|sha512|"
    r"sha1|md5)[_:-]|^[.~]{0,2}/[\w.-]+/"
)


def token(text: str) -> bool:
    """Whether `text` has 10 or more characters, is opaque, and is no identifier or checksum."""
    if len(text) < 8 or _IDENTIFIER.search(text) is not None:
        return False
    return opaque(text) or (len(text) >= 20 and text.isdecimal() and real(text))


def vendor_token(text: str) -> bool:
    """Whether `text` is a token of 16 or more characters, or of 14 with letters and digits."""
    return token(text) and (len(text) >= 16 or token_short(text))


def token_short(text: str) -> bool:
    """Whether `text` mixes letters and digits: enough where the vendor's name stands beside it."""
    return any(c.isdecimal() for c in text) and any(c.isalpha() for c in text) and real(text)
