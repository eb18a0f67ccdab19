"""Example templates: text with `{{kind:size}}` holes, filled from a fixed seed.

Rules carry examples of what they find; written as templates, no literal key stands in any file.
The same template always gives the same text.

    AKIA{{upper:16}}       16 letters           {{github:ghp_}}   a token with its CRC-32
    {{luhn:16:4}}          16 digits from "4"   {{iban:DE}}       an account with its check digits
    {{base64of:user:pw}}   encoded text         {{pem:RSA}}       a private key block
"""

import base64
import json
import random
import re
import string
from collections.abc import Callable, Mapping
from typing import Final

from redactors.validators import base58
from redactors.validators.crc32 import BASE62, crc32_base62
from redactors.validators.keccak import keccak256
from redactors.validators.luhn import luhn_digit

ALPHABETS: Final[Mapping[str, str]] = {
    "digits": string.digits,
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "letters": string.ascii_letters,
    "alnum": string.ascii_lowercase + string.digits,
    "ALNUM": string.ascii_uppercase + string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "base32": string.ascii_uppercase + "234567",
    "base58": "".join(c for c in BASE62 if c not in "0OIl"),
    "BECH32": "023456789ACDEFGHJKLMNPQRSTUVWXYZ",
    "base62": BASE62,
    "base64": BASE62 + "+/",
    "base64url": BASE62 + "-_",
}

_HOLE: Final = re.compile(r"\{\{([A-Za-z0-9]+)(?::([^{}]*))?\}\}")


def expand(template: str, seed: str = "") -> str:
    """Fills every hole of `template`; raises ValueError for a kind or size nobody knows.

    Another seed gives another filling.
    """
    source = random.Random(template + seed)
    return _HOLE.sub(lambda hole: _fill(source, hole[1], hole[2] or ""), template)


def _fill(source: random.Random, kind: str, size: str) -> str:
    alphabet = ALPHABETS.get(kind)
    if alphabet is not None:
        if not size.isdigit():
            raise ValueError(f"template hole {kind!r} needs a count")
        return "".join(source.choices(alphabet, k=int(size)))
    generator = _GENERATORS.get(kind)
    if generator is None:
        known = ", ".join(sorted([*ALPHABETS, *_GENERATORS]))
        raise ValueError(f"unknown template hole {kind!r}; known are {known}")
    return generator(source, size)


def _github(source: random.Random, prefix: str) -> str:
    body = "".join(source.choices(BASE62, k=30))
    return prefix + body + crc32_base62(body)


def _luhn(source: random.Random, size: str) -> str:
    length, _, prefix = size.partition(":")
    body = prefix + "".join(source.choices(string.digits, k=int(length) - len(prefix) - 1))
    return body + luhn_digit(body)


_IBAN_LENGTH: Final = {"DE": 22, "FR": 27, "GB": 22, "NL": 18, "ES": 24, "CH": 21}


def _iban(source: random.Random, country: str) -> str:
    letters = 4 if country in ("GB", "NL") else 0
    body = "".join(source.choices(string.ascii_uppercase, k=letters))
    body += "".join(source.choices(string.digits, k=_IBAN_LENGTH[country] - 4 - letters))
    number = int("".join(str(int(c, 36)) for c in body + country + "00"))
    return f"{country}{98 - number % 97:02d}{body}"


def _uuid(source: random.Random, _size: str) -> str:
    digits = f"{source.getrandbits(128):032x}"
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(source: random.Random, _size: str) -> str:
    header = json.dumps({"alg": "HS256", "typ": "JWT"}).encode()
    claims = json.dumps({"sub": str(source.getrandbits(40)), "iat": 1_700_000_000}).encode()
    return ".".join([_base64url(header), _base64url(claims), _base64url(source.randbytes(32))])


def _pem(source: random.Random, kind: str) -> str:
    title = f"{kind} PRIVATE KEY".strip()
    body = base64.b64encode(source.randbytes(300)).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {title}-----", *lines, f"-----END {title}-----"])


def _jwt_base64(source: random.Random, size: str) -> str:
    return base64.b64encode(_jwt(source, size).encode()).decode()


def _wif(source: random.Random, _size: str) -> str:
    return base58.with_check(b"\x80" + source.randbytes(32) + b"\x01")


def _bitcoin(source: random.Random, _size: str) -> str:
    return base58.with_check(b"\x00" + source.randbytes(20))


def _monero(source: random.Random, _size: str) -> str:
    return base58.monero_address(b"\x12" + source.randbytes(64))


def _ethereum(source: random.Random, _size: str) -> str:
    digits = source.randbytes(20).hex()
    asked = keccak256(digits.encode()).hex()
    return "0x" + "".join(c.upper() if asked[at] >= "8" else c for at, c in enumerate(digits))


def _words(source: random.Random, size: str) -> str:
    return " ".join(
        "".join(source.choices(string.ascii_lowercase, k=source.randint(3, 8)))
        for _ in range(int(size))
    )


def _base64of(_source: random.Random, text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_GENERATORS: Final[Mapping[str, Callable[[random.Random, str], str]]] = {
    "github": _github,
    "luhn": _luhn,
    "iban": _iban,
    "uuid": _uuid,
    "jwt": _jwt,
    "pem": _pem,
    "jwtbase64": _jwt_base64,
    "wif": _wif,
    "bitcoin": _bitcoin,
    "monero": _monero,
    "ethereum": _ethereum,
    "words": _words,
    "base64of": _base64of,
}
