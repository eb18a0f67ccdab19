"""Keccak-256 with the original padding (before SHA-3), as Ethereum and Monero use it."""

from typing import Final

_MASK: Final = (1 << 64) - 1
_RATE: Final = 136


def keccak256(data: bytes) -> bytes:
    """The 32-byte Keccak-256 digest of `data` (Keccak team's specification, 2011)."""
    padded = data + b"\x01" + bytes(-(len(data) + 1) % _RATE)
    padded = padded[:-1] + bytes([padded[-1] | 0x80])
    lanes = [[0] * 5 for _ in range(5)]
    for start in range(0, len(padded), _RATE):
        for at in range(_RATE // 8):
            word = padded[start + 8 * at : start + 8 * at + 8]
            lanes[at % 5][at // 5] ^= int.from_bytes(word, "little")
        lanes = _permute(lanes)
    return b"".join(lanes[at % 5][at // 5].to_bytes(8, "little") for at in range(4))


def _permute(lanes: list[list[int]]) -> list[list[int]]:
    register = 1
    for _ in range(24):
        lanes = _chi(_rho_pi(_theta(lanes)))
        for bit in range(7):
            register = ((register << 1) ^ ((register >> 7) * 0x71)) % 256
            if register & 2:
                lanes[0][0] ^= 1 << ((1 << bit) - 1)
    return lanes


def _theta(lanes: list[list[int]]) -> list[list[int]]:
    parity = [a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] for a in lanes]
    change = [parity[(x + 4) % 5] ^ _rotate(parity[(x + 1) % 5], 1) for x in range(5)]
    return [[lane ^ change[x] for lane in lanes[x]] for x in range(5)]


def _rho_pi(lanes: list[list[int]]) -> list[list[int]]:
    moved = [row[:] for row in lanes]
    x, y = 1, 0
    current = lanes[x][y]
    for step in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        current, moved[x][y] = lanes[x][y], _rotate(current, (step + 1) * (step + 2) // 2)
    return moved


def _chi(lanes: list[list[int]]) -> list[list[int]]:
    return [
        [lanes[x][y] ^ (~lanes[(x + 1) % 5][y] & lanes[(x + 2) % 5][y]) for y in range(5)]
        for x in range(5)
    ]


def _rotate(value: int, bits: int) -> int:
    bits %= 64
    return ((value << bits) | (value >> (64 - bits))) & _MASK
