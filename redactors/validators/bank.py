"""Bank identifiers: IBAN (ISO 13616), BIC (ISO 9362), ABA routing numbers."""

from stdnum import bic as stdnum_bic
from stdnum import iban as stdnum_iban
from stdnum.us import rtn


def iban(text: str) -> bool:
    """Whether `text` has the length, structure and check digits of its country's IBAN."""
    letters = text.replace(" ", "").replace("-", "")
    if not (letters.isascii() and letters.isalnum()):
        return False
    if int("".join(str(int(c, 36)) for c in letters[4:] + letters[:4]) or "0") % 97 != 1:
        return False  # what the library would say too, but at once
    return bool(stdnum_iban.is_valid(text, check_country=False))


def bic(text: str) -> bool:
    """Whether `text` has the structure of a BIC."""
    return bool(stdnum_bic.is_valid(text))


def aba_routing(text: str) -> bool:
    """Whether `text` is nine digits with the ABA routing checksum."""
    return bool(rtn.is_valid(text))
