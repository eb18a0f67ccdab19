"""Shannon entropy of a text's characters."""

from collections import Counter
from math import log2


def entropy_bits(text: str) -> float:
    """Bits per character, from 0 (one character repeated) to log2 of the number of kinds."""
    if not text:
        return 0.0
    size = len(text)
    return -sum(n / size * log2(n / size) for n in Counter(text).values())
