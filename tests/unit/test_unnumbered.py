"""Events that no sequence numbers: what the fold of a run makes of them."""

import orjson
import pyarrow as pa

from pipeline.records.events import Event, Life
from pipeline.records.fold import begin, fold
from pipeline.records.state import MARKS_MAX, pack, unpack

NOW_US = 1_790_000_000_000_000
HOUR_US = 3_600_000_000


def event(number: int) -> Event:
    """The `number`-th event of a record; all of them are of one time."""
    life = Life("default", HOUR_US, HOUR_US)
    names = (None,) * 5
    return Event(
        *(0, "run", 1, NOW_US, f"event-{number}", "other", *names, number),
        *(NOW_US, NOW_US + HOUR_US, None, (), 0, life),
    )


def test_of_more_events_than_are_remembered_none_is_shown_twice() -> None:
    """Without numbers nobody can tell then: the slice counts as one that may hold repeats."""
    state = begin("run", 1)
    for number in range(MARKS_MAX + 1):
        assert not state.may_repeat
        state = fold(state, event(number))
    assert state.may_repeat
    assert (state.events, state.seen.conflicts, state.seen.holes()) == (MARKS_MAX + 1, 0, [])
    assert unpack(pack(state)).may_repeat


def test_a_state_that_an_older_version_wrote_is_read() -> None:
    packed = pack(begin("run", 3))
    size = int.from_bytes(packed[:4], "big")
    values, *rest = orjson.loads(pa.Codec("zstd").decompress(packed[4:], size, asbytes=True))
    older = orjson.dumps([values[:-1], *rest])
    data = len(older).to_bytes(4, "big") + pa.Codec("zstd").compress(older, asbytes=True)
    assert (unpack(data).attempt, unpack(data).unnumbered) == (3, 0)
