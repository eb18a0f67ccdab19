"""`swe-agent`: a trajectory (`.traj`), which is one run.

| in the file | event |
| --- | --- |
| all but what follows | `run.started` |
| `replay_config.problem_statement` | `task.captured` |
| `replay_config.env.repo` | `workspace.captured` |
| `replay_config.agent` | `policy.captured` |
| `replay_config.env.deployment` | `environment.captured` |
| an entry of `history`, verbatim | `message` |
| a step of `trajectory` | `tool.requested`, `tool.responded` after the message that asks for it |
| `info.submission` | `artifact.produced`, a patch without a digest of its own |
| the rest of `info` | `run.finished`, `completed` if it was submitted |

`history` is what the model saw and said, `trajectory` what was done: an observation stands in both.
A file with no `trajectory` tells its calls in `history`, a file with no `info` no end.  Rows of the
run record that the file says nothing of are declared missing; calls of the model are not told one
by one.  There are no times: `occurred_at` and `captured_at` are both the time of the import.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.formats.base import Format, Source, derived_id, parse_json
from pipeline.formats.chat import Chat, is_message
from pipeline.formats.run import Run
from schemas import RunEvent

_START: Final = re.compile(rb'\s*+\{\s*+"(?:environment|trajectory|history|info)"\s*+:')
_COMMAND: Final = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_TOLD: Final = ("trajectory", "history", "info", "replay_config")

File = Mapping[str, Any]


def sniff(head: bytes) -> bool:
    """Whether an object with a history of agents begins."""
    return bool(_START.match(head)) and any(
        key in head for key in (b'"observation"', b'"agent"', b'"is_demo"')
    )


def read(source: Source) -> Iterator[RunEvent]:
    """The events of the run."""
    content = source.whole()
    file = parse_json(source, content)
    if not (isinstance(file, dict) and _is_whole(file)):
        source.fail("this is not a trajectory with a history of messages")
    digest = hashlib.sha256(content).hexdigest()
    run = Run(derived_id("swe-agent", digest), "swe-agent", source.captured_at_us)
    identity = {key: file[key] for key in file if key not in _TOLD}
    yield run.event(
        "run.started", {"trigger": {"type": "import", "format": "swe-agent"}} | identity
    )
    yield from _captured(_config(source, file), run)
    yield from run.declare("missing", "integrations", "models", "authority.decisions")
    yield from _steps(file, run)
    yield from _outcome(file, run)


def _is_whole(file: File) -> bool:
    history, steps = file.get("history"), file.get("trajectory", [])
    return (
        isinstance(history, list)
        and isinstance(steps, list)
        and isinstance(file.get("info", {}), dict)
        and all(isinstance(step, dict) for step in steps)
        and all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in history)
        and (bool(steps) or all(map(is_message, history)))
    )


def _config(source: Source, file: File) -> File:
    """`replay_config`, which some versions write as JSON text."""
    config = file.get("replay_config") or {}
    config = parse_json(source, config.encode()) if isinstance(config, str) else config
    return config if isinstance(config, dict) else {}


def _captured(config: File, run: Run) -> Iterator[RunEvent]:
    """What the run began with, or that the file does not have it."""
    environment, agent = _within(config, "env"), _within(config, "agent")
    repo, deployment = _within(environment, "repo"), _within(environment, "deployment")
    if task := config.get("problem_statement"):
        yield run.event("task.captured", {"task": task, "source": "problem_statement"})
    else:
        yield from run.declare("missing", "task")
    if repo:
        given = (repo.get(name) for name in ("github_url", "repo_name", "path"))
        repository = next((each for each in given if each), None)
        body = {"repository": repository, "commit": repo.get("base_commit"), "repo": repo}
        yield run.event("workspace.captured", body)
    else:
        yield from run.declare("missing", "code")
    if agent:
        harness = {"name": "swe-agent", "version": agent.get("name")}
        yield run.event("policy.captured", {"harness": harness, "agent": agent})
    else:
        yield from run.declare("missing", "policy")
    if deployment:
        image = {"image": {"name": deployment["image"]}} if deployment.get("image") else {}
        yield run.event("environment.captured", image | {"deployment": deployment})
    else:
        yield from run.declare("missing", "environment")


def _steps(file: File, run: Run) -> Iterator[RunEvent]:
    """Messages, each step after the message that asks for it."""
    steps = deque(enumerate(file.get("trajectory", ())))
    chat = None if steps else Chat(run)
    for message in file["history"]:
        if chat is not None:
            yield from chat.events(message)
            continue
        yield run.event("message", message)
        if message["role"] == "assistant" and not message.get("is_demo") and steps:
            yield from _step(*steps.popleft(), run)
    for index, step in steps:
        yield from _step(index, step, run)


def _step(index: int, step: File, run: Run) -> Iterator[RunEvent]:
    action = step.get("action")
    command = _COMMAND.match(action) if isinstance(action, str) else None
    pair = {"name": command[0] if command else None, "call_id": f"step-{index}"}
    yield run.event("tool.requested", {"arguments": action}, **pair)
    result = {key: step[key] for key in step if key not in ("action", "observation")}
    yield run.event("tool.responded", {"content": step.get("observation")} | result, **pair)


def _outcome(file: File, run: Run) -> Iterator[RunEvent]:
    if "info" not in file:
        yield from run.declare("missing", "outputs")
        return
    info = dict(file["info"])
    if patch := info.pop("submission", None):
        yield run.event("artifact.produced", {"purpose": "patch", "content": patch}, name="patch")
    else:
        yield from run.declare("missing", "outputs")
    is_submitted = str(info.get("exit_status")).startswith("submitted")
    status = "completed" if is_submitted else "failed"
    yield run.event("run.finished", {"status": status, "info": info})


def _within(value: File, name: str) -> File:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


FORMAT: Final = Format("swe-agent", sniff, read)
