"""Finds the recorded call that a request is: same boundary, same name, same masked request, and the
same occurrence, so that three equal calls get their own three answers in order."""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pipeline.emitter.calls import KINDS, Call
from pipeline.emitter.policy import MatchingPolicy, Rule
from pipeline.replay.bundle import packed
from pipeline.replay.errors import Diverged, Missing, Place
from pipeline.replay.masked import Difference, MaskedText, first_difference
from pipeline.replay.record import RecordedCall, RecordedRun, requested, unpacked


class Matcher:
    """Matches the calls of one replay, each recorded call once.

    In order (`in_order`), only the calls that were open at once in the record may change places:
    anything else is a divergence.  Otherwise any recorded call may be asked for at any time, and
    fields that the policy leaves free are not compared.
    """

    def __init__(
        self, run: RecordedRun, policy: MatchingPolicy, texts: MaskedText, *, in_order: bool
    ) -> None:
        self.texts = texts
        self._policy, self._in_order = policy, in_order
        self._left = list(run.calls)
        self.on_place: Callable[[Place], None] = lambda place: None
        self._models = 0
        self._asked = 0
        self._has_models = any(call.boundary == "model" for call in run.calls)

    @property
    def left(self) -> Sequence[RecordedCall]:
        """The recorded calls that were not asked for yet, in order."""
        return self._left

    @property
    def by_label(self) -> int:
        """How many masks were matched by nothing but their label."""
        return self.texts.by_label

    def place(self, call: Call) -> Place:
        """Where a call stands that is asked now; counts it."""
        self._asked += 1
        self._models += call.boundary == "model"
        counted = self._models if self._has_models or self._models else self._asked
        place = Place(max(0, counted - 1), call.boundary, call.name)
        self.on_place(place)
        return place

    def same(self, call: Call) -> RecordedCall | None:
        """The next recorded call, if its masked request is letter by letter what is asked now: it
        need not be masked again to be known."""
        recorded = next(iter(_of(call, self._left[:1] if self._in_order else self._left)), None)
        if recorded is None:
            return None
        asked = call.request if call.boundary == "model" else _asked(call)
        if not _is_equal(asked, recorded.request):
            return None
        self._left.remove(recorded)
        return recorded

    def take(self, call: Call, masked: Any, place: Place) -> RecordedCall:
        """The recorded call; `masked` is the body of the event that asks.

        Raises Diverged where the record has another call in this place, Missing where it has none.
        """
        rule = self._policy.rule(call.boundary, call.name)
        fields = _compared(call, masked, rule, self._in_order)
        raw = _compared(call, call.request, rule, self._in_order)
        open_now = self._open_now() if self._in_order else self._left
        first: Difference | None = None
        for recorded in _of(call, open_now):
            wanted = _trimmed(recorded.request, _ignored(rule, self._in_order))
            found = first_difference(wanted, fields, raw, self.texts)
            if found is None:
                self._left.remove(recorded)
                return recorded
            first = first or found
        if first is not None:
            raise Diverged(place, first.path, first.recorded, first.asked)
        if self._in_order and any(self._is(r, fields, raw, rule) for r in _of(call, self._left)):
            expected = open_now[0]
            raise Diverged(
                place, "", f"{expected.boundary} {expected.name}", f"{call.boundary} {call.name}"
            )
        raise Missing(place, "the record has no answer to this call", hint=_MISSING_HINT)

    def _is(self, recorded: RecordedCall, fields: Any, raw: Any, rule: Rule) -> bool:
        wanted = _trimmed(recorded.request, _ignored(rule, self._in_order))
        return first_difference(wanted, fields, raw, self.texts) is None

    def _open_now(self) -> list[RecordedCall]:
        """The next recorded call, and those that were asked before it was answered."""
        if not self._left:
            return []
        first, *later = self._left
        until = first.answered_at
        return [first, *(call for call in later if until is None or call.asked_at < until)]


_MISSING_HINT = "record the run again, or replay it with --mode hybrid --on-miss count"


def _of(call: Call, recorded: Iterable[RecordedCall]) -> list[RecordedCall]:
    return [r for r in recorded if r.boundary == call.boundary and r.name == call.name]


def _compared(call: Call, body: Any, rule: Rule, in_order: bool) -> Any:
    """What of a request is compared."""
    kinds = KINDS[call.boundary]
    if kinds.asked == kinds.answered:
        return {}
    if call.boundary == "model":
        body = requested(body)
    else:
        body = {"arguments": unpacked(body["arguments"])}
    return _trimmed(body, _ignored(rule, in_order))


def _asked(call: Call) -> Any:
    kinds = KINDS[call.boundary]
    return {} if kinds.asked == kinds.answered else {"arguments": call.request["arguments"]}


def _is_equal(one: Any, other: Any) -> bool:
    """Equal as JSON: in Python true is 1."""
    return one == other and packed(one) == packed(other)


def _ignored(rule: Rule, in_order: bool) -> tuple[str, ...]:
    return rule.volatile if in_order else (*rule.volatile, *rule.free)


def _trimmed(value: Any, pointers: Iterable[str]) -> Any:
    """The value without the fields at the pointers."""
    wanted = [pointer.split("/")[1:] for pointer in pointers]
    if not wanted:
        return value
    value = copy.deepcopy(value)
    for steps in wanted:
        _drop(value, steps)
    return value


def _drop(value: Any, steps: list[str]) -> None:
    head, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        names = list(value) if head == "*" else [head.replace("~1", "/").replace("~0", "~")]
        for name in names:
            if name in value and not rest:
                del value[name]
            elif name in value:
                _drop(value[name], rest)
    elif isinstance(value, list):
        for index in range(len(value)) if head == "*" else [int(head)] if head.isdigit() else []:
            if index < len(value) and not rest:
                value[index] = None
            elif index < len(value):
                _drop(value[index], rest)
