"""Tokens that end in a CRC-32 of their random part, in base 62 (GitHub, npm)."""

from redactors.templates import crc32_base62


def crc32_base62_tail(text: str) -> bool:
    """Whether the last six characters are the CRC-32 of the part after the prefix's `_`."""
    body = text.rpartition("_")[2]
    return len(body) > 6 and crc32_base62(body[:-6]) == body[-6:]
