"""Credentials in pairs: user and password, client id and secret."""

from typing import Final

import re2

from redactors.validators.encoded import decoded_pair
from redactors.validators.opaque import is_uuid
from redactors.validators.password import connection_password
from redactors.validators.token import token

_NUMBERS: Final = re2.compile(r"^[\d:.,x-]+$")


def client_id(text: str) -> bool:
    """Whether `text` is an opaque id; a UUID names a thing and is none."""
    return not is_uuid(text) and token(text)


def userinfo(text: str) -> bool:
    """Whether `text` is `user:password` with a password that is no placeholder or reference."""
    return connection_password(text.partition(":")[2])


def curl_user(text: str) -> bool:
    """Whether the last word of `text` is `user:password`, not two numbers (`1000:1000`)."""
    pair = text.rsplit(None, 1)[-1].rpartition("=")[2].strip("\"'")
    return _NUMBERS.search(pair) is None and ":" in pair and userinfo(pair)


def basic_pair(text: str) -> bool:
    """Whether `text` decodes to printable `user:password` (RFC 7617)."""
    return decoded_pair(text)
