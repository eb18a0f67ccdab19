"""Wallet addresses with a checksum: Bitcoin (base 58 and bech32) and Ethereum (EIP-55)."""

from redactors.validators.base58 import base58check
from redactors.validators.bech32 import segwit
from redactors.validators.keccak import keccak256


def bitcoin(text: str) -> bool:
    """Whether `text` is a Bitcoin address, base 58 or bech32, with its checksum."""
    return segwit(text) if text[:3].lower() in ("bc1", "tb1") else base58check(text)


def ethereum(text: str) -> bool:
    """Whether `text` is 0x and 40 hex digits in the case that their hash asks for.

    An address in one case carries no checksum and could be any other number.
    """
    digits = text[2:]
    asked = keccak256(digits.lower().encode()).hex()
    return all(c.isdecimal() or c.isupper() == (asked[at] >= "8") for at, c in enumerate(digits))
