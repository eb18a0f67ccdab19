"""Base58 (Bitcoin alphabet), with the checksums of Bitcoin and Monero."""

import hashlib
from typing import Final

from redactors.validators.keccak import keccak256

ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# Monero encodes blocks of 8 bytes as 11 characters, the last one shorter.
_BLOCK: Final = {8: 11, 5: 7}
_BYTES: Final = {11: 8, 7: 5}


def encode(data: bytes) -> str:
    """Bitcoin's base 58: one number, leading zero bytes as `1`."""
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        digits = ALPHABET[rest] + digits
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + digits


def decode(text: str) -> bytes:
    """Inverse of `encode`; raises ValueError for a character outside the alphabet."""
    number = 0
    for char in text:
        number = number * 58 + ALPHABET.index(char)
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def with_check(payload: bytes) -> str:
    """`payload` with the first 4 bytes of its double SHA-256, encoded."""
    return encode(payload + _double_sha256(payload)[:4])


def base58check(text: str) -> bool:
    """Whether `text` decodes to a payload followed by the first 4 bytes of its double SHA-256."""
    try:
        data = decode(text)
    except ValueError:
        return False
    return len(data) > 4 and _double_sha256(data[:-4])[:4] == data[-4:]


def monero(text: str) -> bool:
    """Whether `text` is a Monero address: blocks of base 58 that end in 4 bytes of Keccak-256."""
    blocks = [text[at : at + 11] for at in range(0, len(text), 11)]
    try:
        data = b"".join(_number(block).to_bytes(_BYTES[len(block)], "big") for block in blocks)
    except (ValueError, KeyError, OverflowError):
        return False
    return keccak256(data[:-4])[:4] == data[-4:]


def monero_address(payload: bytes) -> str:
    """The address of a 65-byte payload (network byte and two public keys)."""
    data = payload + keccak256(payload)[:4]
    parts = [data[at : at + 8] for at in range(0, len(data), 8)]
    return "".join(_padded(part) for part in parts)


def _padded(part: bytes) -> str:
    digits = encode(part.lstrip(b"\0"))
    return digits.rjust(_BLOCK[len(part)], "1")


def _number(block: str) -> int:
    number = 0
    for char in block:
        number = number * 58 + ALPHABET.index(char)
    return number


def _double_sha256(data: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()
