"""Cookie headers: a credential, or only a preference."""

from typing import Final

from redactors.validators.opaque import opaque
from redactors.validators.real import real

_ATTRIBUTES: Final = frozenset({"path", "domain", "expires", "max-age", "samesite", "version"})
_SECRET_PARTS: Final = ("sess", "sid", "token", "auth", "csrf", "xsrf", "jwt", "remember", "login")


def cookie(text: str) -> bool:
    """Whether a cookie in `text` (`a=b; c=d`) has an opaque value, or a secret's name and one."""
    for pair in text.split(";"):
        name, _, value = pair.strip().partition("=")
        if name.lower() in _ATTRIBUTES or not value:
            continue
        named = any(part in name.lower() for part in _SECRET_PARTS)
        if opaque(value) or (named and len(value) >= 6 and real(value)):
            return True
    return False
