"""What a scan of JSON text looks for to see values that a field rule names.

A name stands as an object's key, or inside a text before a delimiter, as a flag or as an argument.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from redactors.needles import Needle
from redactors.pattern import render
from redactors.ruleset import FieldRule
from redactors.spelling import SEPARATORS, ends_alike, name_tree, shell_name

_BLANK: Final = r"[ \t]"
_END_OF_KEY: Final = "[0-9" + "".join(f"\\x{ord(c):02x}" for c in SEPARATORS) + r"]*\n?\x22"
_KEY: Final = rf'{_END_OF_KEY}\s*(?:[,}}]|:\s*["\[{{0-9\x2d])'
_BARE: Final = r"[^\s\"'`,;&<>|\\]"
_QUOTED: Final = r"[bBrRuUfF@$]{0,2}(?:\"[^\"]|\"\"\s*:|'[^']|`[^`]|\\{1,16}[\"'`])"
_SCHEME: Final = r"(?:bearer|basic|token|digest|negotiate|apikey|api-key|ssws|bot|key)"
_VALUE: Final = rf"{_BLANK}*(?:{_QUOTED}|(?:{_SCHEME}{_BLANK}+)?{_BARE}*[0-9!#%^*@~+?])"
_CLOSERS: Final = rf"[\"'`\\\])]*{_BLANK}*"
_ARGUMENT: Final = rf"[\"'`]{_BLANK}*,{_BLANK}*{_QUOTED}"
_ASSIGNED: Final = rf"[0-9]{{0,4}}(?:{_CLOSERS}(?::=|=>|[:=]){_VALUE}|{_BLANK}{_VALUE}|{_ARGUMENT})"


def name_needles(fields: Sequence[FieldRule]) -> list[Needle]:
    """What is found in JSON text wherever a field rule may act by a name.

    That is a key before a value, or a value that may name the one after it; and for secrets also
    a name inside a text, before a value that may count as one.
    """
    secret = {name.removeprefix("*") for f in fields if f.kind == "secret" for name in f.names}
    named = _telling(secret)
    return [
        *_needles((name, f"{shell_name(name)}[0-9]{{0,4}}{_CLOSERS}:?={_BLANK}*{_BARE}")
                  for name in named if name.isascii()),
        *_needles((name, f"(?i){_spelled(name)}(?:{_KEY}|{_ASSIGNED})") for name in named),
        *key_needles(fields, besides=named),
    ]  # fmt: skip


def key_needles(fields: Sequence[FieldRule], besides: Iterable[str] = ()) -> list[Needle]:
    """The keys alone, but for names that end as one of `besides`."""
    known = list(besides)
    starred = {name[1:] for field in fields for name in field.names if name.startswith("*")}
    keys = [name for name in _telling(starred) if not _is_covered(name, known)]
    whole = {name for field in fields for name in field.names if not name.startswith("*")}
    return [
        *_needles((name, f"(?i){_spelled(name)}{_KEY}") for name in keys),
        *_needles((name, f"(?i)[^A-Za-z0-9]{_spelled(name)}{_KEY}") for name in sorted(whole)
                  if not _is_covered(name, [*keys, *known])),
    ]  # fmt: skip


def _needles(patterns: Iterable[tuple[str, str]]) -> list[Needle]:
    return [Needle(pattern, not name.isascii()) for name, pattern in patterns]


def _telling(names: set[str]) -> list[str]:
    """The names but those that are found by the end they share with another."""
    return [name for name in sorted(names) if not _is_covered(name, names - {name})]


def _is_covered(name: str, others: Iterable[str]) -> bool:
    return any(ends_alike(name, other) for other in others)


def _spelled(name: str) -> str:
    return render(name_tree(name))
