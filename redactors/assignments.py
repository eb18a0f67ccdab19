"""Secrets given by name inside a text: `api_key: …`, `PASSWORD=…`, `"token": "…"`, `--secret …`.

Hyperscan says where a field's name is followed by a delimiter; here its value is cut out.  The
forms: JSON and its escapes, YAML, INI, environment files, headers, query strings, shell flags and
source code.  Every step looks at a bounded window.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from redactors.fields import Roles
from redactors.pattern import render
from redactors.ruleset import FieldRule
from redactors.spelling import name_tree

_MAX_NAME_BYTES: Final = 112
_MAX_VALUE_BYTES: Final = 8192
_WORD: Final = r"[A-Za-z0-9_\x80-\xff][A-Za-z0-9_.\x80-\xff-]*"
_CLOSERS: Final = r"[\"'`\\\])]{0,8}[ \t]{0,8}"
_DELIMITER: Final = r"(?::=|=>|[:=])"
_ARGUMENT: Final = r"[\"'`][ \t]{0,4},"  # of `set("token", "…")`


def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode("latin-1"))


# Backwards from a delimiter: the name before it, of up to three words, or that of an argument.
_DROW: Final = r"[A-Za-z0-9_.\x80-\xff-]*[A-Za-z0-9_\x80-\xff]"
_NAME_BEFORE: Final = _compiled(
    rf"(?:>=|=:|[:= \t])[ \t]{{0,8}}+[\"'`\\\])]{{0,8}}+({_DROW}(?: {_DROW}){{0,2}})"
    rf"|,[ \t]{{0,4}}+[\"'`]({_DROW})[\"'`][ \t]{{0,4}}+\("
)
_UNQUOTED: Final = _compiled(r"[^ \t\n\f\r\"'`,;&<>|\\]{1,1000}+")
_SCHEME: Final = _compiled(
    r"(?i:bearer|basic|token|digest|negotiate|apikey|api-key|ssws|bot|key)[ \t]{1,4}+"
)
_OPENER: Final = _compiled(r"[ \t]{0,8}+(?:[bBrRuUfF@$]{0,2}+(\\{0,16}+[\"'`]))?+")
# What tells a value written without quotes from a word of prose or a name in source code.
_TELLING: Final = _compiled(r"[0-9!#%^*@~+?]")
_SHELL_NAME: Final = _compiled(r"[A-Z][A-Z0-9_]*")


def named_patterns(rules: Iterable[FieldRule]) -> list[str]:
    """What hyperscan looks for: each field's name, however it is spelled, before a delimiter."""
    after = rf"[0-9]{{0,4}}(?:{_CLOSERS}{_DELIMITER}|{_ARGUMENT})"
    return [f"(?i){name}{after}" for name in _spelled(rules)]


def flag_patterns(rules: Iterable[FieldRule]) -> list[str]:
    """The same for names given as a flag, before a space."""
    return [rf"(?i)-[\w-]{{0,32}}{name}[ \t]" for name in _spelled(rules)]


def _spelled(rules: Iterable[FieldRule]) -> list[str]:
    names = sorted({name.removeprefix("*") for rule in rules for name in rule.names})
    return [render(name_tree(name)) for name in names]


def assignments(
    data: bytes,
    ends: Iterable[int],
    roles: Roles,
    valid: Callable[[FieldRule, str], bool],
) -> Iterator[tuple[int, int, FieldRule]]:
    """The named values in `data` as byte spans; `ends` are where delimiters end, ascending."""
    reached = 0
    for end in ends:
        if end < reached:
            continue
        named = _NAME_BEFORE.match(data[max(0, end - _MAX_NAME_BYTES) : end][::-1])
        if named is None:
            continue
        name = (named[1] or named[2])[::-1]
        rule = _rule(name.decode("utf-8", "replace"), roles)
        if rule is None or rule.kind != "secret":
            continue
        value = _value(data, end)
        if value is None:
            continue
        start, stop, quoted = value
        if not quoted and not _is_literal(data[start:stop], name, data[end - 1 : end + 1]):
            continue
        if valid(rule, data[start:stop].decode("utf-8", "replace")):
            reached = stop
            yield start, stop, rule


def _rule(name: str, roles: Roles) -> FieldRule | None:
    """The rule for the last word of `name`, or for it with the words before (`API key`)."""
    words = name.split(" ")
    for count in range(1, len(words) + 1):
        role = roles[" ".join(words[-count:])]
        if role is not None and role.rule is not None:
            return role.rule
    return None


def _value(data: bytes, at: int) -> tuple[int, int, bool] | None:
    """Where the value after a delimiter stands, and whether it is quoted."""
    opener = _OPENER.match(data, at)
    assert opener is not None  # it may be empty
    start, quote = opener.end(), opener[1]
    if quote:
        end = _closing(data, start, quote)
        return (start, end, True) if end > start else None
    if data[at - 1 : at] == b",":
        return None
    scheme = _SCHEME.match(data, start)
    if scheme is not None:
        start = scheme.end()
    token = _UNQUOTED.match(data, start)
    if token is None:
        return None
    end = token.end()
    while end > start and data[end - 1 : end] in (b")", b"]", b"}", b"."):
        end -= 1
    return (start, end, False) if end > start else None


def _closing(data: bytes, start: int, quote: bytes) -> int:
    """Where the value that `quote` opened ends: before the same quote, or at the bound."""
    limit = min(len(data), start + _MAX_VALUE_BYTES)
    at = data.find(quote, start, limit)
    while at >= 0 and len(quote) == 1 and _is_escaped(data, start, at):
        at = data.find(quote, at + 1, limit)
    if at >= 0:
        return at
    line = data.find(b"\n", start, limit)
    return line if line >= 0 else limit


def _is_escaped(data: bytes, start: int, at: int) -> bool:
    before = data[max(start, at - 32) : at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def _is_literal(value: bytes, name: bytes, delimiter: bytes) -> bool:
    """Whether an unquoted value is written as one, not as a word or an expression."""
    if _TELLING.search(value) is not None:
        return True
    return delimiter[:1] == b"=" and _SHELL_NAME.fullmatch(name) is not None
