"""Values of fields about a person: names, addresses, contacts, numbers of documents."""

import re
from typing import Final

from redactors.validators.real import real

_NO_PERSON: Final = re.compile(r"[_/\\@{}<>=\[\]]|^\W*$|\d{4}")
_ENDPOINT: Final = re.compile(
    r"^0x|^\w+://|^\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?$|^[\w.-]+:\d+$|^[0-9a-fA-F:]{8,}$|^localhost"
)


def person_name(text: str) -> bool:
    """Whether `text` could be a person's name: letters, no code, no placeholder."""
    return (
        any(c.isalpha() for c in text)
        and not _NO_PERSON.search(text)
        and text.lower()
        not in ("null", "none", "unknown", "string", "undefined", "true", "false", "n/a")
    )


def postal_address(text: str) -> bool:
    """Whether `text` could be (part of) a postal address: no network or memory address."""
    stripped = text.strip()
    alnum = sum(c.isalnum() for c in stripped)
    return alnum >= 3 and not _ENDPOINT.search(stripped) and real(stripped)


def contact(text: str) -> bool:
    """Whether `text` holds an address with an `@` and something on both sides."""
    return re.search(r"[^\s@]@[^\s@]", text) is not None


def id_number(text: str) -> bool:
    """Whether `text` could be a document's number: 3 or more digits."""
    digits = sum(c.isdecimal() for c in text)
    return digits >= 3 and len(text) <= 40 and real(text)


def us_ssn_shape(text: str) -> bool:
    """Whether the three parts of `text` are ones the US issues: area, group and serial."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"
