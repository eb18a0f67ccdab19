"""What the body of each kind holds: the fields that run records, traces and replay read.

Every field may be absent: evidence that is missing looks missing.  A body may hold more; importers
keep a source's own message as it was, and its fields then stand beside or in place of these.  Times
in bodies are ISO 8601 text in UTC.  Digests are `sha256:<hex>`.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

from schemas.events import OTHER

Json = Any


class RunStarted(TypedDict, total=False):
    """What set the run off; `parent` is a run id."""

    trigger: Mapping[str, Json]
    parent: str | None


class TaskCaptured(TypedDict, total=False):
    """The task as it stood when the run took it on."""

    task: Json
    source: str
    captured_at: str


class WorkspaceCaptured(TypedDict, total=False):
    """The code the agent worked in; `clean` declares that there was no patch."""

    repository: str
    commit: str
    patch: str | None
    clean: bool


class Reference(TypedDict, total=False):
    """Something kept elsewhere, named so that it cannot change unnoticed."""

    name: str
    version: str
    digest: str
    uri: str


class PolicyCaptured(TypedDict, total=False):
    """What the agent was told and allowed to do."""

    factory_revision: str
    prompts: list[Reference]
    skills: list[Reference]
    harness: Reference
    tools: list[Reference]


class EnvironmentCaptured(TypedDict, total=False):
    """Where the agent ran."""

    image: Reference
    toolchain: Mapping[str, str]
    dependencies: Reference
    setup: list[str]
    cache: str
    resources: Mapping[str, Json]


class IntegrationCaptured(TypedDict, total=False):
    """A service the agent talked to; the event's `name` is the integration's."""

    endpoint: str
    contract: Reference
    adapter: Reference
    fixtures: Reference | None
    matching_policy: str


class ModelRequested(TypedDict, total=False):
    """A request to a model; the event's `name` is the requested model, `call_id` pairs it."""

    provider: str
    requested_model: str
    api_version: str
    settings: Mapping[str, Json]
    messages: list[Json]
    tools: list[str]
    occurrence: int


class ModelResponded(TypedDict, total=False):
    """The model's answer; `usage` counts tokens."""

    provider: str
    requested_model: str
    returned_model: str
    request_id: str
    stop_reason: str
    message: Json
    usage: Mapping[str, int]


class ToolRequested(TypedDict, total=False):
    """A call of a tool; the event's `name` is the tool, `call_id` pairs it with the result."""

    arguments: Json
    occurrence: int


class ToolResponded(TypedDict, total=False):
    """What the tool gave back."""

    content: Json
    status: Literal["ok", "error"]


class EffectIntended(TypedDict, total=False):
    """A change outside that the agent is about to make; `idempotency_key` is the event's."""

    effect_id: str
    actor: str
    approval: str | None
    capability: str
    arguments: Json
    occurrence: int


class EffectCompleted(TypedDict, total=False):
    """What became of the change; an intended effect without this is of unknown state."""

    effect_id: str
    content: Json
    status: Literal["ok", "error"]


class Message(TypedDict, total=False):
    """What was said, by whom."""

    role: str
    content: Json


class Error(TypedDict, total=False):
    """Something failed; `during` names the call it failed in."""

    type: str
    message: str
    during: str
    is_retried: bool


class Intervention(TypedDict, total=False):
    """Somebody stepped in from outside the agent."""

    actor: str
    action: str
    reason: str


class ArtifactProduced(TypedDict, total=False):
    """Something the run leaves behind; `purpose` is patch, check, report or capture."""

    purpose: Literal["patch", "check", "report", "capture"]
    digest: str
    uri: str
    size_bytes: int


class DecisionMade(TypedDict, total=False):
    """A decision, and what it rests on."""

    decision: str
    actor: str
    approval: str | None
    reason: str
    artifacts: list[str]


class InputDeclared(TypedDict, total=False):
    """An input that is missing, may change or does not apply: what a replay must know.

    `input` is a name of one's own, or the part of the run record that it stands for (`code`,
    `environment.image`, …).
    """

    input: str
    state: Literal["missing", "mutable", "not_applicable"]
    access_owner: str
    replay_restriction: str


class RunFinished(TypedDict, total=False):
    """How the run ended."""

    status: Literal["completed", "failed", "cancelled"]
    reward: float
    summary: str
    info: Json


BODIES: Final[Mapping[str, type]] = {
    "run.started": RunStarted,
    "task.captured": TaskCaptured,
    "workspace.captured": WorkspaceCaptured,
    "policy.captured": PolicyCaptured,
    "environment.captured": EnvironmentCaptured,
    "integration.captured": IntegrationCaptured,
    "model.requested": ModelRequested,
    "model.responded": ModelResponded,
    "tool.requested": ToolRequested,
    "tool.responded": ToolResponded,
    "effect.intended": EffectIntended,
    "effect.completed": EffectCompleted,
    "message": Message,
    "error": Error,
    "intervention": Intervention,
    "artifact.produced": ArtifactProduced,
    "decision.made": DecisionMade,
    "input.declared": InputDeclared,
    "run.finished": RunFinished,
    OTHER: dict,
}
