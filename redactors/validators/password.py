"""Passwords given as literals, told apart from the code and prose around them."""

from typing import Final

import re2

from redactors.validators.real import real

# `get_secret(…`, `settings.db.password`, `row["password"]`, `user->pass`, `DB_PASS`, `/a/path`.
_EXPRESSION: Final = re2.compile(
    r"^[A-Za-z_$][A-Za-z_$]*(?:(?:\.|->|::)[A-Za-z_]+)+(?:[\[(].*)?$"
    r"|^(?:self|this|settings|config|os|process|env|req|request|args|options|params|ctx|data)[.\[]"
    r"|^[A-Za-z_$][\w$]*[\[(].*$|^[A-Z][A-Z]*_[A-Z_]+$|^https?://[^@]*$"
    r"|^(?:~|\.{1,2})?/[\w.-]+/[\w./-]+$"
)
_CODE: Final = re2.compile(r"[=(){}<>;]|\b(?:None|null|return|str|string|the|a|your)\b")
_REFERENCE: Final = re2.compile(r"^[$%<{\[@*]|^\w+[(\[.]|^(?:xxx+|null|none|password)$")
# `refresh`, `token_refresh`, `deploy-bot`: names of things.
_WORDS: Final = re2.compile(r"^[A-Za-z]+(?:[_-][A-Za-z]+)?$")
_SCHEMES: Final = ("basic ", "bearer ", "token ", "digest ")


def password(text: str) -> bool:
    """Whether `text` could be a password: a real value of 3 or more characters, not code."""
    stripped = text.strip(" \t\r\n\"'`,;")
    return len(stripped) >= 3 and real(stripped) and not _EXPRESSION.match(stripped)


def field_secret(text: str) -> bool:
    """Whether the value of a field named as a secret could be one: 6 or more, no plain words."""
    stripped = text.strip(" \t\r\n\"'`,;")
    if len(stripped) < 6 or (" " in stripped and not stripped.lower().startswith(_SCHEMES)):
        return False
    return password(stripped) and not _WORDS.match(stripped)


def password_bare(text: str) -> bool:
    """Whether an unquoted `text` could be a password: as `password`, with a digit or a sign."""
    signs = sum(not c.isalpha() and c not in "_.-/" for c in text)
    return signs > 0 and len(text) >= 5 and password(text)


def connection_password(text: str) -> bool:
    """Whether `text` could be the password of a connection string: anything but a reference."""
    stripped = text.strip(" \t\r\n\"'`,;")
    return len(stripped) >= 2 and not _REFERENCE.search(stripped)


def pin(text: str) -> bool:
    """Whether `text` is 4 to 8 digits."""
    return text.isdecimal() and 4 <= len(text) <= 8


def phrase(text: str) -> bool:
    """Whether `text` is several words, without brackets of code and no placeholder."""
    return " " in text.strip() and real(text) and _CODE.search(text) is None


def signs(text: str) -> bool:
    """Whether `text` has two or more signs that stand in passwords and seldom in code."""
    return sum(c in "!@#%^*?~¿¡¨§€£" for c in text) >= 2 and real(text)
