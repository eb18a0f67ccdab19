"""Placeholders: text that stands where a secret would, but is none."""

from typing import Final

import re2

_LISTED: Final = """
    none null nil undefined true false yes no on off string str text bytes char varchar boolean
    bool int integer number object array any optional required password passwd pass pwd secret
    token key apikey api_key auth credential credentials value default empty hidden prompt input
    unset unknown missing redacted masked removed hashed encrypted plaintext disabled enabled
    changeme change_me todo tbd foo bar baz foobar test testing dummy fake sample example xxx abc
    user username admin_password bearer basic digest session cookie authorization self this ask
"""
_WORDS: Final = frozenset(_LISTED.split())
# Any of these inside the text marks a placeholder.
_PARTS: Final = re2.compile(
    r"(?i)example|changeme|change[-_]me|change[-_]this|placeholder|redacted|"
    r"your[-_ ]?(?:own|api|access|secret|token|key|pass|client|account|auth|private|app)|"
    r"(?:my|the|some|insert|put|enter|paste|replace)[-_](?:your|own|api|secret|token|key|pass)[-_a-z]*$|"
    r"x{5,}|\*{3,}|\.{3}|•{2,}|…|dummy|<[^<>]*>$|^\[[^\]]*\]$|not[-_]?a[-_]?real",
)
# A reference to a value kept elsewhere: ${X}, $X, $(cmd), {{ x }}, #{x}, %X%, %(x)s, @Value.
_REFERENCE: Final = re2.compile(
    r"^\$[A-Za-z_{(]|^\{\{|^\{[\w.]*\}$|^#\{|^%[A-Za-z_]+%$|^%[sdr]$|^%\(|^<%|^\\\("
    r"|process\.env|os\.environ|getenv|System\.|secrets\.|vault:|^arn:|^ref\+|^op://"
)


def real(text: str) -> bool:
    """Whether `text` could be a secret: no placeholder, no reference, not one character."""
    stripped = text.strip(" \t\r\n\"'`,;")
    if len(set(stripped)) < 3 or named_placeholder(stripped):
        return False
    return not (_PARTS.search(stripped) or _REFERENCE.search(stripped))


def named_placeholder(text: str) -> bool:
    """Whether `text` is a word that names what should stand there (`password`, `token`)."""
    return text.lower() in _WORDS


def given(text: str) -> bool:
    """Whether `text` is not made of one or two characters over and over (`xxxx`, `****`)."""
    return len(set(text)) > 6
