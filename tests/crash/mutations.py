"""Messages as a broken producer, a bad disk or an attacker makes them, from good ones."""

import json
import random
from collections.abc import Callable, Iterator, Sequence

from crash.canaries import Canary

from schemas import RunEvent, encode, encode_json


def mutated(canaries: Sequence[Canary], seed: int, count: int, now_us: int) -> Iterator[bytes]:
    """`count` values, each once a good event of `now_us` with a canary."""
    rng = random.Random(seed)
    for number in range(count):
        canary = rng.choice(canaries)
        event = RunEvent(
            event_id=f"event-{number}",
            run_id=f"run-{number % 7}",
            sequence=number,
            occurred_at=now_us,
            kind="message",
            body=json.dumps(canary.body),
        )
        value = bytearray(rng.choice([encode, encode_json])(event))
        for _ in range(rng.randint(1, 3)):
            rng.choice(MUTATIONS)(rng, value)
        yield bytes(value)


def _flip(rng: random.Random, value: bytearray) -> None:
    for _ in range(rng.randint(1, 8)):
        if value:
            value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)


def _cut(rng: random.Random, value: bytearray) -> None:
    del value[rng.randrange(len(value) + 1) :]


def _claim_length(rng: random.Random, value: bytearray) -> None:
    """Overwrites bytes by an Avro length of up to 2⁶³."""
    at = rng.randrange(len(value) + 1)
    value[at : at + 9] = bytes([0xFF] * rng.randint(1, 9)) + b"\x01"


def _rename_schema(rng: random.Random, value: bytearray) -> None:
    value[:10] = b"\xc3\x01" + rng.randbytes(8)


def _use_registry(rng: random.Random, value: bytearray) -> None:
    value[:0] = b"\x00" + rng.randbytes(4)


def _repeat(rng: random.Random, value: bytearray) -> None:
    at = rng.randrange(len(value) + 1)
    value[at:at] = value[: rng.randint(0, 200)]


def _nest(rng: random.Random, value: bytearray) -> None:
    at = rng.randrange(len(value) + 1)
    value[at:at] = b"[" * rng.choice([10, 2_000, 20_000])


def _swap_ids(rng: random.Random, value: bytearray) -> None:
    value[:] = value.replace(b"event-", rng.choice([b"", b"\xff\xfe", b"\x00" * 6, b"e" * 5_000]))


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    _flip,
    _cut,
    _claim_length,
    _rename_schema,
    _use_registry,
    _repeat,
    _nest,
    _swap_ids,
)
