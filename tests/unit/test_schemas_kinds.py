"""The bodies of the kinds are described, each once."""

from schemas import KINDS
from schemas.kinds import BODIES


def test_every_kind_has_a_described_body() -> None:
    assert tuple(BODIES) == KINDS
    assert all(body.__doc__ for body in BODIES.values())
