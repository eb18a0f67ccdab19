"""How complete a record is: the state of each of its eleven rows, and what every absence costs.

A value that may change without anybody noticing (a branch, a tag, an alias, a link without a
digest) is mutable, not present.  What was declared not to apply counts as present; so does a row
whose values were masked and declared.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.records.state import Item, RunState

COSTS: Final[Mapping[str, str]] = {
    "identity": "attempts cannot be told apart or put in order",
    "code": "what was changed before the run cannot be told from what the agent changed",
    "policy": "a change of prompts, skills, tools or harness between runs goes unseen",
    "environment": "a difference between machines cannot be ruled out as the cause",
    "task": "only what the tracker says today is left to show what was asked for",
    "integrations": "it is open which recorded answer belongs to which request",
    "models": "a change on the provider's side cannot be told from one of the agent",
    "steps": "the outcome stands without what led to it",
    "outputs": "what was reviewed may have changed behind its link since",
    "authority": "what was meant to happen cannot be told from what happened",
    "handling": "a record with gaps may be taken for a whole one",
    "idempotency_key": "nobody can tell whether trying again would do it twice",
    "left_out": "what stands here is the beginning of a longer list; events has all of it",
}
"""What cannot be told without a row, or without a detail that concerns more than one."""

ROWS: Final = (
    "identity", "code", "policy", "environment", "task", "integrations", "models", "steps",
    "outputs", "authority", "handling",
)  # fmt: skip
"""The eleven rows of the minimal record, in order."""

PRESENT: Final = "present"
REDACTED: Final = "redacted"
NOT_APPLICABLE: Final = "not applicable"
MUTABLE: Final = "mutable"
DECLARED_MISSING: Final = "declared missing"
EXPIRED: Final = "expired"
MISSING: Final = "missing"

STANDS: Final = (PRESENT, REDACTED, NOT_APPLICABLE)
"""States of a row that leave a record complete."""

_WORST_FIRST: Final = (MISSING, EXPIRED, DECLARED_MISSING, MUTABLE)

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"[a-z0-9]+:[0-9A-Za-z+/=_-]{32,128}")


@dataclass(frozen=True, slots=True)
class Gap:
    """Something a row lacks: `field` is `<row>.<field>` or the row, `reason` one of the states."""

    field: str
    reason: str
    cost: str = ""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The state of each row and every gap; `notes` are gaps that do not make a row incomplete."""

    states: dict[str, str]
    gaps: tuple[Gap, ...]
    notes: tuple[Gap, ...] = ()

    @property
    def columns(self) -> dict[str, Any]:
        """`complete`, `completeness` and `missing` as they stand in a record."""
        missing = [
            {"field": gap.field, "reason": gap.reason, "cost": gap.cost}
            for gap in (*self.gaps, *self.notes)
        ]
        return {
            "complete": all(state in STANDS for state in self.states.values()),
            "completeness": [{"row": row, "state": state} for row, state in self.states.items()],
            "missing": missing,
        }


@dataclass(slots=True)
class _Declared:
    """What the run itself declares about parts of its record, by `<row>` or `<row>.<field>`."""

    states: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str | None:
        return self.states.get(name) or self.states.get(name.partition(".")[0])


def assess(state: RunState, parts: Mapping[str, Any], now_us: int) -> Assessment:
    """How complete the record made of `parts` is, which `state` leads to, at a time."""
    declared = _declared(state)
    states: dict[str, str] = {}
    gaps: list[Gap] = []
    for row in ROWS:
        found = [_as_declared(gap, declared) for gap in _CHECKS[row](state, parts)]
        found = [gap for gap in found if gap.reason != NOT_APPLICABLE]
        found += _declared_besides(row, declared, found)
        found += [Gap(row, EXPIRED)] if is_expired(parts[row], now_us) else []
        found = list(dict.fromkeys(found))
        gaps += [_priced(row, gap) for gap in found]
        states[row] = _state_of(row, state, found, declared)
    return Assessment(states, tuple(gaps), tuple(_notes(state, parts)))


def _state_of(row: str, state: RunState, gaps: list[Gap], declared: _Declared) -> str:
    reasons = {gap.reason for gap in gaps}
    worst = next((reason for reason in _WORST_FIRST if reason in reasons), None)
    if worst is not None:
        return worst
    if declared.states.get(row) == NOT_APPLICABLE:
        return NOT_APPLICABLE
    items = [item for part in _PARTS.get(row, (row,)) for item in state.items.get(part, ())]
    return REDACTED if any(item.redactions for item in items) else PRESENT


def _declared(state: RunState) -> _Declared:
    """Inputs that name a part of the record speak of it; others are inputs of the agent's own."""
    known = {"missing": DECLARED_MISSING, "mutable": MUTABLE, "not_applicable": NOT_APPLICABLE}
    declared = _Declared()
    for item in sorted(state.items.get("inputs", ()), key=lambda item: item.sequence):
        content = item.content or {}
        name, said = content.get("input"), known.get(content.get("state") or "")
        if name and said and name.partition(".")[0] in ROWS:
            declared.states[name] = said
    return declared


def _as_declared(gap: Gap, declared: _Declared) -> Gap:
    """What is missing is declared missing, or not applicable, if the run said so."""
    said = declared.of(gap.field)
    if gap.reason == MISSING and said in (DECLARED_MISSING, NOT_APPLICABLE):
        return Gap(gap.field, said)
    return gap


def _declared_besides(row: str, declared: _Declared, found: list[Gap]) -> Iterator[Gap]:
    """Declarations of gaps that we would not have seen."""
    known = {gap.field for gap in found}
    for name, said in declared.states.items():
        is_ours = name.partition(".")[0] == row
        is_covered = name in known or (name == row and found)
        if is_ours and said != NOT_APPLICABLE and not is_covered:
            yield Gap(name, said)


def _priced(row: str, gap: Gap) -> Gap:
    return Gap(gap.field, gap.reason, COSTS[row])


def _notes(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    """What is declared without making the record incomplete."""
    effects = parts["authority"]["effects"]
    without_key = sum(not effect.get("idempotency_key") for effect in effects)
    if without_key:
        of = f"{without_key} of {len(effects)} effects have none"
        yield Gap("authority.effects.idempotency_key", of, COSTS["idempotency_key"])
    for name, count in sorted(state.left_out.items()):
        yield Gap(name, f"{count} more were left out", COSTS["left_out"])
    if state.seen.conflicts:
        of = f"{state.seen.conflicts} events share the number of another"
        yield Gap("steps.sequence", of, COSTS["steps"])


def is_expired(part: Any, now_us: int) -> bool:
    """Whether a row of a record refers to an event that is gone; times as epoch microseconds."""
    if isinstance(part, list):
        return any(is_expired(item, now_us) for item in part)
    if not isinstance(part, dict):
        return False
    if "is_embedded" in part:
        return not part["is_embedded"] and bool(part["deadline"] <= now_us)
    if part.get("first_deadline") is not None:
        return bool(part["first_deadline"] <= now_us)
    return any(is_expired(item, now_us) for item in part.values())


def _lacking(row: str, part: Mapping[str, Any] | None, *names: str) -> Iterator[Gap]:
    """Fields of one part of a row that were not told; all of it if there is no part."""
    if part is None:
        yield Gap(row, MISSING)
        return
    if not part["evidence"]["is_embedded"]:
        return  # it stands in the event that is referred to
    yield from (Gap(f"{row}.{name}", MISSING) for name in names if name not in part)


def _unfixed(row: str, part: Mapping[str, Any] | None, *names: str) -> Iterator[Gap]:
    """References by a name or link behind which the content may change."""
    for name in names:
        given = (part or {}).get(name)
        references = given if isinstance(given, list) else [given]
        if any(r is not None and not is_digest(r["digest"]) for r in references):
            yield Gap(f"{row}.{name}", MUTABLE)


def is_digest(text: str | None) -> bool:
    """Whether `text` is a digest with its algorithm, such as `sha256:<hex>`."""
    return bool(text and _DIGEST.fullmatch(text))


def _identity(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    if "run.started" not in state.kinds:
        yield Gap("identity.started", MISSING)
    if state.attempt > 1 and not state.retry_of:
        yield Gap("identity.retry_of", MISSING)


def _code(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    code = parts["code"]
    yield from _lacking("code", code, "repository", "commit")
    if code is None or not code["evidence"]["is_embedded"]:
        return
    commit = code.get("commit")
    if commit and not _COMMIT.fullmatch(commit):
        yield Gap("code.commit", MUTABLE)
    if not code.get("is_clean") and not code.get("patch_digest"):
        yield Gap("code.patch", MISSING)


def _policy(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    names = ("factory_revision", "prompts", "skills", "harness", "tools")
    yield from _lacking("policy", parts["policy"], *names)
    yield from _unfixed("policy", parts["policy"], *names[1:])


def _environment(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    names = ("image", "toolchain", "dependencies", "setup", "cache", "resources")
    yield from _lacking("environment", parts["environment"], *names)
    yield from _unfixed("environment", parts["environment"], "image", "dependencies")


def _task(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    task = parts["task"]
    if "task" not in state.items and "trigger" not in state.items:
        yield Gap("task", MISSING)
    elif "task" not in state.items or _lacks(task, "snapshot"):
        yield Gap("task.snapshot", MISSING)
    if "task" in state.items and not _told(state.items.get("trigger", []), "trigger"):
        yield Gap("task.trigger", MISSING)


def _lacks(part: Mapping[str, Any], name: str) -> bool:
    return part["evidence"]["is_embedded"] and name not in part


def _told(items: list[Item], name: str) -> bool:
    return any(item.content is None or name in item.content for item in items)


def _integrations(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    names = ("endpoint", "contract", "adapter", "fixtures", "matching_policy")
    yield from _each("integrations", parts, *names)
    for part in parts["integrations"]:
        yield from _unfixed("integrations", part, "contract", "adapter", "fixtures")


def _models(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    if not parts["models"]:
        yield Gap("models", MISSING)
    for part in parts["models"]:
        if not part["evidence"]["is_embedded"]:
            continue
        for name in ("provider", "requested_model", "api_version", "settings", "request_ids"):
            if not part.get(name):
                yield Gap(f"models.{name}", MISSING)
        if not part["returned_models"]:
            yield Gap("models.returned_models", MUTABLE if part["responses"] else MISSING)


def _steps(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    if not any(value for name, value in parts["steps"].items() if name not in _NOT_STEPS):
        yield Gap("steps", MISSING)
    if parts["steps"]["holes"]:
        yield Gap("steps.sequence", MISSING)
    elif state.unnumbered:  # nobody can tell whether one is missing
        yield Gap("steps.sequence", DECLARED_MISSING)
    if "run.finished" not in state.kinds:
        yield Gap("steps.end", MISSING)


_NOT_STEPS: Final = ("holes", "first_deadline", "others")


def _outputs(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    if not parts["outputs"]:
        yield Gap("outputs", MISSING)
    for part in parts["outputs"]:
        if part["evidence"]["is_embedded"] and not is_digest(part.get("digest")):
            yield Gap("outputs.digest", MUTABLE if part.get("uri") else MISSING)


def _authority(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    decisions, effects = (parts["authority"][name] for name in ("decisions", "effects"))
    if not decisions:
        yield Gap("authority.decisions", MISSING)
    for part in decisions:
        yield from _lacking("authority.decisions", part, "decision", "actor", "approval")
    for part in effects:
        if part["evidence"] is None:
            yield Gap("authority.effects.intention", MISSING)
        else:
            yield from _lacking("authority.effects", part, "actor", "approval", "capability")


def _handling(state: RunState, parts: Mapping[str, Any]) -> Iterator[Gap]:
    handling = parts["handling"]
    for name, told in (
        ("access_owner", handling["access_owners"]),
        ("replay_restriction", handling["replay_restrictions"]),
    ):
        if not told:
            yield Gap(f"handling.{name}", MISSING)


def _each(row: str, parts: Mapping[str, Any], *names: str) -> Iterator[Gap]:
    if not parts[row]:
        yield Gap(row, MISSING)
    for part in parts[row]:
        yield from _lacking(row, part, *names)


_PARTS: Final = {
    "task": ("task", "trigger"),
    "identity": (),
    "steps": (),
    "authority": ("decisions", "effects"),
    "handling": ("inputs",),
}
"""The parts of the state that a row is made of, where they have other names."""

_CHECKS: Final[Mapping[str, Callable[[RunState, Mapping[str, Any]], Iterator[Gap]]]] = {
    "identity": _identity,
    "code": _code,
    "policy": _policy,
    "environment": _environment,
    "task": _task,
    "integrations": _integrations,
    "models": _models,
    "steps": _steps,
    "outputs": _outputs,
    "authority": _authority,
    "handling": _handling,
}
