"""Tokens that end in a CRC-32 of their random part, in base 62 (GitHub, npm)."""

import string
import zlib
from typing import Final

BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


def crc32_base62(text: str, width: int = 6) -> str:
    """CRC-32 of `text`, base 62 in digits-upper-lower order, padded with zeros to `width`."""
    value, digits = zlib.crc32(text.encode()), ""
    while value:
        value, rest = divmod(value, 62)
        digits = BASE62[rest] + digits
    return digits.rjust(width, "0")


def crc32_base62_tail(text: str) -> bool:
    """Whether the last six characters are the CRC-32 of the part after the prefix's `_`."""
    body = text.rpartition("_")[2]
    return len(body) > 6 and crc32_base62(body[:-6]) == body[-6:]
