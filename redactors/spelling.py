"""How a field's name may be spelled: in any case, with separators between its words.

A ruleset lists names without separators (`accesstoken`); `Access-Token`, `access_token` and
`accessToken` are all that name, `acce.sstoken` is not.
"""

import re
from functools import cache
from itertools import pairwise
from typing import Final

from redactors.pattern import Bytes, Choice, Node, Repeat, joined, literal, mask_of

SEPARATORS: Final = " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"
"""What may stand between the words of a name: ASCII punctuation but quotes and backslashes."""

_LISTED: Final = """
    access account address admin api apellido auth authorization bank bearer billing birth birthday
    born buyer card cell cc client code codice code complet completo connect connection consumer
    contact cookie correo credential credentials credit csrf customer data date datum day db de
    delivery driver drivers driving dt electronico email emailaddress employee encryption expires
    fails famille familien family fecha fiscale first fax full geburts given guest handy header
    hmac holder home id key kenn last legal licence license line mail mailing maiden master mfa
    middle mobile mot nach nacimiento naissance name nascimento nascita national nom nombre nome
    number nummer of on otp pass passe passenger passport patient payer person php phone phrase pin
    post postal postale preferred primer private proxy pwd recipient recovery refresh residential
    root routing secret secure security seller sender service sess session set shared shipping sid
    sign signature signing social sort street string tag tax tele tel token totp urodzenia user
    vault verification vor wd webhook word wort x zip e c j o one time كلمة المرور
    पहला अंतिम नाम
"""
_WORDS: Final = frozenset(_LISTED.split())


def _pieces(listed: str) -> list[str]:
    """The pieces of `listed` that no separator parts, by every way to make it of known words."""
    return [listed[a:b] for a, b in pairwise(_cuts(listed))]


@cache
def _cuts(listed: str) -> tuple[int, ...]:
    length = len(listed)
    reached = {0}
    for start in range(length):
        if start in reached:
            reached |= {end for end in range(start + 1, length + 1) if _is_word(listed[start:end])}
    finishing = {length}
    for end in range(length, 0, -1):
        if end in finishing:
            finishing |= {start for start in range(end) if _is_word(listed[start:end])}
    return tuple(sorted((reached & finishing) | {0, length}))


def _is_word(piece: str) -> bool:
    return piece in _WORDS or piece.isdecimal()


@cache
def spelling(listed: str) -> re.Pattern[str]:
    """Finds the name `listed` at the end of a field's name, however it is spelled."""
    between = f"[{re.escape(SEPARATORS)}]*"
    pieces = (
        "".join(f"[{re.escape(letter)}{re.escape(letter.upper()[:1])}]" for letter in piece)
        for piece in _pieces(listed)
    )
    return re.compile(f"{between.join(pieces)}[0-9{re.escape(SEPARATORS)}]*$", re.ASCII)


def name_tree(listed: str) -> Node:
    """The pattern of the name `listed` over UTF-8, however it is spelled."""
    between = Repeat(Bytes(mask_of(SEPARATORS.encode())), 0, None)
    items: list[Node] = []
    for piece in _pieces(listed):
        items += [between] if items else []
        items += map(_letter, piece)
    return joined(items)


def shell_name(listed: str) -> str:
    """The pattern of the name `listed` as a variable of a shell: capitals, parted by `_`."""
    return "_*".join(piece.upper() for piece in _pieces(listed))


def ends_alike(longer: str, listed: str) -> bool:
    """Whether every spelling of `longer` ends with one of `listed`."""
    if not longer.endswith(listed):
        return False
    start = len(longer) - len(listed)
    return {cut - start for cut in _cuts(longer) if cut >= start} <= set(_cuts(listed))


def _letter(letter: str) -> Node:
    if letter.isascii():
        return literal(letter, caseless=True)
    return Choice(tuple(map(literal, dict.fromkeys((letter, letter.upper()[:1])))))
