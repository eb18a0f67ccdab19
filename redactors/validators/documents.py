"""National numbers that python-stdnum does not check, from their published rules."""

from typing import Final

from stdnum import luhn as stdnum_luhn
from stdnum import verhoeff as stdnum_verhoeff
from stdnum.ie import pps as stdnum_pps
from stdnum.iso7064 import mod_11_2, mod_11_10, mod_37_2, mod_37_36, mod_97_10

_ISO_7064: Final = (mod_11_2, mod_11_10, mod_37_2, mod_37_36, mod_97_10)
_WEIGHTS_731: Final = (7, 3, 1)
_SVNR_WEIGHTS: Final = (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)
_NRIC_WEIGHTS: Final = (2, 7, 6, 5, 4, 3, 2)
_NRIC_LETTERS: Final = {
    "S": (0, "JZIHGFEDCBA"),
    "T": (4, "JZIHGFEDCBA"),
    "F": (0, "XWUTRQPNMLK"),
    "G": (4, "XWUTRQPNMLK"),
    "M": (3, "XWUTRQPNJLK"),
}


def compacted(text: str) -> str:
    """`text` in capitals without anything but ASCII letters and digits."""
    return "".join(c for c in text.upper() if c.isascii() and c.isalnum())


def _digits(text: str) -> list[int]:
    return [int(c) for c in text if c.isdecimal()]


def icao_document(text: str) -> bool:
    """A document number whose last digit weighs the others 7, 3, 1 (ICAO Doc 9303)."""
    compact = compacted(text)
    if not 9 <= len(compact) <= 10 or not compact[-1].isdecimal():
        return False
    total = sum(int(c, 36) * _WEIGHTS_731[at % 3] for at, c in enumerate(compact[:-1]))
    return total % 10 == int(compact[-1])


def de_document(text: str) -> bool:
    """A German passport or identity card: nine characters, then perhaps a check digit and D."""
    compact = compacted(text).removesuffix("D")
    return len(compact) == 9 or icao_document(compact)


def de_svnr(text: str) -> bool:
    """A German pension insurance number: area, birth date, letter, serial, digit sums mod 10."""
    compact = compacted(text)
    if len(compact) != 12 or not compact[8].isalpha():
        return False
    spelled = f"{compact[:8]}{ord(compact[8]) - 64:02d}{compact[9:11]}"
    if not (spelled + compact[11]).isdecimal():
        return False
    products = (int(d) * w for d, w in zip(spelled, _SVNR_WEIGHTS, strict=True))
    return sum(p // 10 + p % 10 for p in products) % 10 == int(compact[11])


def es_nuss(text: str) -> bool:
    """A Spanish social security number: the last two of twelve digits are the rest mod 97."""
    digits = "".join(map(str, _digits(text)))
    if len(digits) != 12:
        return False
    province, number = digits[:2], digits[2:10]
    whole = province + (number if int(number) >= 10_000_000 else number[1:])
    return int(whole) % 97 == int(digits[10:])


def hu_tin(text: str) -> bool:
    """A Hungarian personal tax number: ten digits, weighted by place mod 11."""
    digits = _digits(text)
    if len(digits) != 10:
        return False
    return sum(d * at for at, d in enumerate(digits[:9], start=1)) % 11 == digits[9]


def lu_nin(text: str) -> bool:
    """A Luxembourg national number: birth date and serial, a Luhn and a Verhoeff digit."""
    digits = "".join(map(str, _digits(text)))
    if len(digits) != 13 or not ("01" <= digits[4:6] <= "12" and "01" <= digits[6:8] <= "31"):
        return False
    checked = stdnum_luhn.is_valid(digits[:12])
    return bool(checked and stdnum_verhoeff.is_valid(digits[:11] + digits[12]))


def se_coordination(text: str) -> bool:
    """A Swedish coordination number: the day is raised by 60, the last ten digits pass Luhn."""
    digits = "".join(map(str, _digits(text)))[-10:]
    if len(digits) != 10 or not ("00" <= digits[2:4] <= "12" and "61" <= digits[4:6] <= "91"):
        return False
    return bool(stdnum_luhn.is_valid(digits))


def sg_nric(text: str) -> bool:
    """A Singapore NRIC or FIN: series letter, seven weighted digits, check letter."""
    compact = text.upper()
    digits = _digits(compact)
    if len(compact) != 9 or len(digits) != 7 or compact[0] not in _NRIC_LETTERS:
        return False
    offset, letters = _NRIC_LETTERS[compact[0]]
    total = offset + sum(d * w for d, w in zip(digits, _NRIC_WEIGHTS, strict=True))
    return letters[total % 11] == compact[8]


def gb_nino(text: str) -> bool:
    """A UK National Insurance number: prefix letters that are issued, six digits, A to D."""
    compact = compacted(text)
    if len(compact) != 9 or compact[:2] in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ"):
        return False
    allowed = set("ABCEGHJKLMNOPRSTWXYZ")
    prefix = compact[0] in allowed - {"O"} and compact[1] in allowed - {"O"}
    return prefix and compact[2:8].isdecimal() and compact[8] in "ABCD"


def verhoeff(text: str) -> bool:
    """Whether the digits of `text` pass the Verhoeff scheme (as Aadhaar numbers do)."""
    return bool(stdnum_verhoeff.is_valid("".join(map(str, _digits(text)))))


def au_tfn(text: str) -> bool:
    """An Australian tax file number: eight or nine digits, weighted, mod 11."""
    digits = _digits(text)
    weights = {8: (10, 7, 8, 4, 6, 3, 5, 1), 9: (1, 4, 3, 7, 5, 8, 6, 9, 10)}.get(len(digits))
    if weights is None or not any(digits):
        return False
    return sum(d * w for d, w in zip(digits, weights, strict=True)) % 11 == 0


def lv_pk(text: str) -> bool:
    """A Latvian personal code: eleven digits; from 32 on without, before with a check digit."""
    digits = _digits(text)
    if len(digits) != 11:
        return False
    weights = (1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    check = (1101 - sum(d * w for d, w in zip(digits, weights, strict=False))) % 11 % 10
    return check == digits[10] or digits[:2] == [3, 2]


def pl_pesel(text: str) -> bool:
    """A Polish PESEL: eleven digits, weights 1, 3, 7, 9, mod 10; the date is not judged."""
    digits = _digits(text)
    if len(digits) != 11:
        return False
    return (
        sum(d * (1, 3, 7, 9)[at % 4] for at, d in enumerate(digits[:10])) % 10 == -digits[10] % 10
    )


def gr_amka(text: str) -> bool:
    """A Greek AMKA: eleven digits that pass Luhn, read from either end (both are in use)."""
    digits = "".join(map(str, _digits(text)))
    if len(digits) != 11:
        return False
    return bool(stdnum_luhn.is_valid(digits)) or _luhn_from_left(digits)


def _luhn_from_left(digits: str) -> bool:
    doubled = [int(d) * (2 if at % 2 == 0 else 1) for at, d in enumerate(digits[:-1])]
    return (sum(d - 9 if d > 9 else d for d in doubled) + int(digits[-1])) % 10 == 0


def ie_pps(text: str) -> bool:
    """An Irish PPS number: seven digits and a check letter; what follows may say more."""
    compact = compacted(text)
    return bool(stdnum_pps.is_valid(compact)) or bool(stdnum_pps.is_valid(compact[:8]))


def gb_utr(text: str) -> bool:
    """A UK taxpayer reference: ten digits, perhaps with K or an office's three in front."""
    digits = "".join(map(str, _digits(text)))[-10:]
    if len(digits) != 10:
        return False
    weights = (6, 7, 8, 9, 10, 5, 4, 3, 2)
    rest = sum(int(d) * w for d, w in zip(digits[1:], weights, strict=True)) % 11
    return "21987654321"[rest] == digits[0]


def iso_7064(text: str) -> bool:
    """Whether `text` passes one of the check character systems of ISO/IEC 7064."""
    compact = compacted(text)
    if len(_digits(compact)) < 9:
        return False
    return any(system.is_valid(compact) for system in _ISO_7064)
