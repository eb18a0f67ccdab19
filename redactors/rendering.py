"""How the leaves of a pattern are written in the syntax that hyperscan takes."""

from functools import lru_cache


def count_as_text(low: int, high: int | None) -> str:
    """A repetition of `low` to `high` times (None: any number), as short as the syntax has it."""
    simple = {(0, None): "*", (1, None): "+", (0, 1): "?", (1, 1): ""}
    if (low, high) in simple:
        return simple[low, high]
    if high is None:
        return f"{{{low},}}"
    return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


@lru_cache(maxsize=4096)  # a ruleset has a hundred thousand leaves and few different ones
def bytes_as_text(mask: int) -> str:
    """A set of byte values (bit `n` of `mask`: byte `n`) as one character or a class."""
    members = [byte for byte in range(256) if mask >> byte & 1]
    if len(members) == 1:
        return _byte_as_text(members[0])
    ranges: list[tuple[int, int]] = []
    for byte in members:
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1] = (ranges[-1][0], byte)
        else:
            ranges.append((byte, byte))
    inner = "".join(
        _byte_as_text(low) if low == high else f"{_byte_as_text(low)}-{_byte_as_text(high)}"
        for low, high in ranges
    )
    return f"[{inner}]"


def _byte_as_text(byte: int) -> str:
    character = chr(byte)
    return character if character.isascii() and character.isalnum() else f"\\x{byte:02x}"
