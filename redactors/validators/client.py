"""Credentials in pairs: user and password, client id and secret."""

from typing import Final

import re2

from redactors.validators.opaque import is_uuid
from redactors.validators.password import connection_password
from redactors.validators.real import named_placeholder
from redactors.validators.token import token

_NUMBERS: Final = re2.compile(r"^[\d:.,x-]+$")


def client_id(text: str) -> bool:
    """Whether `text` is an opaque id; a UUID names a thing and is none."""
    return not is_uuid(text) and token(text)


def userinfo(text: str) -> bool:
    """Whether `text` is `user:password` with a password, not a placeholder and no two numbers."""
    secret = text.partition(":")[2].strip("\"'")
    return (
        connection_password(secret)
        and not named_placeholder(secret)
        and _NUMBERS.search(text) is None
    )
