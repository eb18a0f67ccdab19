"""Numbers of health systems: US prescribers and providers, Australian Medicare cards."""

from redactors.validators.luhn import luhn


def us_dea(text: str) -> bool:
    """A DEA registration: two letters, seven digits, the last a weighted sum of the others."""
    digits = [int(c) for c in text if c.isdecimal()]
    if len(digits) != 7:
        return False
    return (sum(digits[0:6:2]) + 2 * sum(digits[1:6:2])) % 10 == digits[6]


def us_npi(text: str) -> bool:
    """A National Provider Identifier: ten digits that pass Luhn behind the prefix 80840."""
    digits = "".join(c for c in text if c.isdecimal())
    return len(digits) == 10 and luhn("80840" + digits)


def au_medicare(text: str) -> bool:
    """An Australian Medicare card: nine to eleven digits, the ninth a weighted sum."""
    digits = [int(c) for c in text if c.isdecimal()]
    if len(digits) not in (9, 10, 11) or not 2 <= digits[0] <= 6:
        return False
    weights = (1, 3, 7, 9, 1, 3, 7, 9)
    return sum(d * w for d, w in zip(digits, weights, strict=False)) % 10 == digits[8]
