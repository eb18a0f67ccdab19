"""Segregated-witness Bitcoin addresses: bech32 (BIP 173) and bech32m (BIP 350)."""

from typing import Final

_ALPHABET: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECKS: Final = (1, 0x2BC830A3)


def segwit(text: str) -> bool:
    """Whether `text` is a `bc1` address in one case, with either checksum."""
    if text not in (text.lower(), text.upper()):
        return False
    prefix, _, data = text.lower().rpartition("1")
    if prefix not in ("bc", "tb") or not all(c in _ALPHABET for c in data):
        return False
    expanded = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    return _polymod(expanded + [_ALPHABET.index(c) for c in data]) in _CHECKS


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, factor in enumerate(_GENERATOR):
            check ^= factor if top >> bit & 1 else 0
    return check
