"""Where two runs differ, and what kind of difference it is.

| class | what differs |
| --- | --- |
| redaction | only how the same thing is masked: another key, or masked on one side only |
| environment | the world: captured environment, a tool or effect that answers the same otherwise |
| nondeterminism | chance: clock, random numbers, a model that answers the same request otherwise |
| behaviour | what the agent asks, says or does; what a substituted prompt or model answers |

What is declared beforehand (another prompt, another model) is no difference.  Steps count from 0.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from pipeline.replay.masked import Difference, MaskedText, differences
from pipeline.replay.record import NOTES, RecordedCall, RecordedRun, parsed

Class = Literal["redaction", "environment", "nondeterminism", "behaviour"]
Pair = tuple[RecordedCall | None, RecordedCall | None]

_CAPTURED: Final = (
    "workspace.captured", "policy.captured", "environment.captured", "integration.captured"
)  # fmt: skip
_PROMPTS: Final = ("/messages/0/content", "/system", "/instructions")
_MODELS: Final = ("/requested_model", "/model", "/returned_model", "/provider", "/api_version")
_KEYED: Final = re.compile(r"\[([A-Z][A-Z0-9_]{0,40}):([a-z0-9]{1,16}):[A-Z2-7]{16}\]")


@dataclass(frozen=True, slots=True)
class Declared:
    """Substitutions that were made on purpose; `paths` are JSON pointers into model requests."""

    prompt: bool = False
    model: bool = False
    paths: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Whether a difference in a model's request is declared."""
        is_prompt = path.startswith(_PROMPTS)
        is_model = path.startswith(_MODELS)
        return (
            (self.prompt and is_prompt)
            or (self.model and is_model)
            or any(path == each or path.startswith(f"{each}/") for each in self.paths)
        )

    @property
    def changes_model(self) -> bool:
        """Whether a model is expected to answer otherwise."""
        return self.prompt or self.model or bool(self.paths)


@dataclass(frozen=True, slots=True)
class Found:
    """One difference; `path` is a JSON pointer into the `side` of the call, `one` and `other` are
    the masked values there (None may mean absent)."""

    step: int
    boundary: str
    name: str
    side: Literal["captured", "call", "request", "answer", "note"]
    path: str
    one: Any
    other: Any
    kind: Class

    def as_dict(self) -> dict[str, Any]:
        """For JSON output."""
        told = asdict(self)
        return {"class": told.pop("kind"), **told}


_NOTHING: Final = Declared()


def first_difference(
    one: RecordedRun, other: RecordedRun, texts: MaskedText, declared: Declared = _NOTHING
) -> Found | None:
    """The first difference of two runs that is more than masking, else the first; None if there is
    none."""
    first = None
    for found in all_differences(one, other, texts, declared):
        if found.kind != "redaction":
            return found
        first = first or found
    return first


def all_differences(
    one: RecordedRun, other: RecordedRun, texts: MaskedText, declared: Declared = _NOTHING
) -> Iterator[Found]:
    """Every difference of two runs: what they were captured with, their calls in order, and what
    they said and made."""
    yield from _captured(one, other, texts, declared)
    for pair in aligned(one.calls, other.calls):
        yield from _calls(pair, texts, declared)
    for kind in NOTES:
        yield from _notes(kind, one, other, texts)


def aligned(one: Sequence[RecordedCall], other: Sequence[RecordedCall]) -> Iterator[Pair]:
    """The calls side by side: those of the same boundary and name, and those that only one has."""
    left, right = ([f"{call.boundary} {call.name}" for call in calls] for calls in (one, other))
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    for _, i, i_end, j, j_end in matcher.get_opcodes():
        for at in range(max(i_end - i, j_end - j)):
            a = one[i + at] if i + at < i_end else None
            b = other[j + at] if j + at < j_end else None
            if a and b and (a.boundary, a.name) != (b.boundary, b.name):
                yield a, None
                yield None, b
            else:
                yield a, b


def _captured(
    one: RecordedRun, other: RecordedRun, texts: MaskedText, declared: Declared
) -> Iterator[Found]:
    for kind in _CAPTURED:
        left, right = ([_body(e) for e in run.events if e.kind == kind] for run in (one, other))
        if kind == "policy.captured" and declared.changes_model:
            continue
        for found in differences(left, right, right, _Exact()):
            yield Found(
                0, kind, "", "captured", found.path, found.recorded, found.asked,
                "redaction" if _is_masking(found, texts) else "environment",
            )  # fmt: skip


def _body(event: Any) -> Any:
    return {"name": event.name, "body": parsed(event.body)}


def _calls(pair: Pair, texts: MaskedText, declared: Declared) -> Iterator[Found]:
    one, other = pair
    if one is None or other is None:
        call = one or other
        assert call is not None
        left, right = ("called", None) if one else (None, "called")
        yield _found(call, "call", Difference("", left, right), "behaviour")
        return
    asked = [
        found
        for found in differences(one.request, other.request, other.request, _Exact())
        if not (one.boundary == "model" and declared.covers(found.path))
    ]
    for found in asked:
        yield _found(one, "request", found, _class_of(found, texts, "behaviour"))
    is_same_request = all(_is_masking(found, texts) for found in asked)
    kind = _answer_class(one, is_same_request, declared)
    a, b = (call.answer.body if call.answer else None for call in (one, other))
    for found in differences(a, b, b, _Exact()):
        if not (one.boundary == "model" and declared.model and found.path.startswith(_MODELS)):
            yield _found(one, "answer", found, _class_of(found, texts, kind))


def _answer_class(call: RecordedCall, is_same_request: bool, declared: Declared) -> Class:
    """What it means that two calls were answered differently."""
    if not is_same_request or (call.boundary == "model" and declared.changes_model):
        return "behaviour"
    return "environment" if call.boundary in ("tool", "effect") else "nondeterminism"


def _notes(kind: str, one: RecordedRun, other: RecordedRun, texts: MaskedText) -> Iterator[Found]:
    left, right = ([note for note in run.notes if note.kind == kind] for run in (one, other))
    for index in range(max(len(left), len(right))):
        a = left[index].body if index < len(left) else None
        b = right[index].body if index < len(right) else None
        step = (left[index] if index < len(left) else right[index]).step
        for found in differences(a, b, b, _Exact()):
            kind_ = _class_of(found, texts, "behaviour")
            yield Found(step, kind, "", "note", found.path, found.recorded, found.asked, kind_)


def _found(call: RecordedCall, side: Any, found: Difference, kind: Class) -> Found:
    return Found(
        call.place.step, call.boundary, call.name, side, found.path, found.recorded, found.asked,
        kind,
    )  # fmt: skip


def _class_of(found: Difference, texts: MaskedText, otherwise: Class) -> Class:
    return "redaction" if _is_masking(found, texts) else otherwise


def _is_masking(found: Difference, texts: MaskedText) -> bool:
    """Whether two values are one, masked in two ways."""
    one, other = found.recorded, found.asked
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    keys = [{match[1] for match in _KEYED.findall(text)} for text in (one, other)]
    if keys[0] != keys[1] and _KEYED.sub(r"[\1]", one) == _KEYED.sub(r"[\1]", other):
        return True
    return texts.same(one, other)


class _Exact(MaskedText):
    """Takes no mask for a text."""

    def __init__(self) -> None:
        """Needs neither masks nor keys."""

    def same(self, one: str, other: str) -> bool:
        """Only what is equal."""
        return one == other


def by_class(found: Iterable[Found]) -> dict[str, int]:
    """How many differences there are of each class."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.kind] = counts.get(each.kind, 0) + 1
    return counts
