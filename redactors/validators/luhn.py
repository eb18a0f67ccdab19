"""Luhn sum and payment card numbers (ISO/IEC 7812-1)."""

from typing import Final

# (first and last prefix of the issuer's range, allowed lengths); published issuer ranges.
_ISSUERS: Final = (
    ("4", "4", (13, 16, 19)),  # Visa
    ("51", "55", (16,)),  # Mastercard
    ("2221", "2720", (16,)),  # Mastercard, second range
    ("34", "34", (15,)),  # American Express
    ("37", "37", (15,)),
    ("300", "305", (14, 16, 19)),  # Diners Club
    ("3095", "3095", (14, 16, 19)),
    ("36", "36", (14, 16, 19)),
    ("38", "39", (14, 16, 19)),
    ("3528", "3589", (16, 17, 18, 19)),  # JCB
    ("6011", "6011", (16, 17, 18, 19)),  # Discover
    ("644", "649", (16, 17, 18, 19)),
    ("65", "65", (16, 17, 18, 19)),
    ("62", "62", (16, 17, 18, 19)),  # UnionPay
    ("81", "81", (16, 17, 18, 19)),
    ("50", "50", (12, 13, 14, 15, 16, 17, 18, 19)),  # Maestro
    ("56", "58", (12, 13, 14, 15, 16, 17, 18, 19)),
    ("6304", "6304", (16, 17, 18, 19)),
    ("67", "67", (12, 13, 14, 15, 16, 17, 18, 19)),
    ("2200", "2204", (16, 17, 18, 19)),  # Mir
)


def luhn(text: str) -> bool:
    """Whether the digits of `text` (separators ignored) pass the Luhn sum."""
    digits = [int(c) for c in text if c.isdecimal()]
    if len(digits) < 2 or not any(digits):
        return False
    total = sum(
        d if i % 2 == 0 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(digits[::-1])
    )
    return total % 10 == 0


def card(text: str) -> bool:
    """Whether `text` is a card number: issuer's prefix and length, one separator, Luhn sum."""
    separators = {c for c in text if not c.isdecimal()}
    digits = "".join(c for c in text if c.isdecimal())
    if len(separators) > 1 or len(set(digits)) < 2:
        return False
    groups = [len(group) for group in text.split(separators.pop())] if separators else [4]
    if groups[0] != 4 or groups[1:-1] not in ([], [4, 4], [6]):
        return False
    issued = any(
        first <= digits[: len(first)] <= last and len(digits) in lengths
        for first, last, lengths in _ISSUERS
    )
    return issued and luhn(digits)


def luhn_digit(digits: str) -> str:
    """The check digit that makes `digits` followed by it pass the Luhn sum."""
    return next(check for check in "0123456789" if luhn(digits + check))
