"""Wallet addresses with a checksum: Bitcoin (python-stdnum) and Ethereum (EIP-55)."""

from stdnum import bitcoin as stdnum_bitcoin

from redactors.validators.keccak import keccak256


def bitcoin(text: str) -> bool:
    """Whether `text` is a Bitcoin address, base 58 or bech32, with its checksum."""
    return bool(stdnum_bitcoin.is_valid(text))


def ethereum(text: str) -> bool:
    """Whether `text` is 0x and 40 hex digits, in one case or in the case its hash asks for."""
    digits = text[2:]
    letters = [c for c in digits if c.isalpha()]
    if len(set(digits.lower())) < 3:
        return False
    if all(c.islower() for c in letters) or all(c.isupper() for c in letters):
        return True
    asked = keccak256(digits.lower().encode()).hex()
    return all(c.isdigit() or c.isupper() == (asked[at] >= "8") for at, c in enumerate(digits))
