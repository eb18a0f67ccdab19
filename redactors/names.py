"""Field names, compared as people write them: `X-Api-Key`, `xApiKey` and `x_api_key` are one."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

# Vowel signs belong to their word, though they are no letters (Indic and Thai scripts).
_SEPARATORS: Final = re.compile(r"[^\w\u0300-\u036f\u0900-\u0e7f]|_")
# A word ends where a capital follows a small letter or digit, or before the last of several.
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def normalise(name: str) -> str:
    """`name` in lower case without separators."""
    return _SEPARATORS.sub("", name).lower()


def tails(name: str) -> tuple[str, ...]:
    """The normalised name and what is left of it after each word boundary, longest first.

    `dbAccess_token2` gives `dbaccesstoken2`, `accesstoken2`, `token2`, then the same without
    the number at its end.
    """
    words = [
        part for chunk in _SEPARATORS.split(name) if chunk for part in _HUMPS.split(chunk) if part
    ]
    joined = ["".join(words[at:]).lower() for at in range(len(words))]
    bare = [tail.rstrip("0123456789") for tail in joined]
    return tuple(dict.fromkeys([*joined, *(tail for tail in bare if tail)]))


@lru_cache(maxsize=4096)
def names_field(listed: str, name: str) -> bool:
    """Whether `listed` (`apikey`, or `*token` for any name that ends so) names field `name`."""
    found = tails(name)
    if listed.startswith("*"):
        return listed[1:] in found
    return listed in (found[0], found[0].rstrip("0123456789")) if found else False


def names_any(listed: Iterable[str], name: str) -> bool:
    """Whether one of `listed` names field `name`."""
    return any(names_field(one, name) for one in listed)
