"""The support agent: four model calls, two tools, one e-mail, one answer.

`v1`, `v2` and `v3` differ in their prompt and in nothing else.
"""

from collections.abc import Mapping
from typing import Any, Final

from pipeline.demo.support.client import Client
from pipeline.demo.support.model import MODEL, PROMPTS, PROVIDER
from pipeline.emitter import CallFailed, World

MAX_STEPS: Final = 8
TRIES: Final = 3


def v1(world: World, task: Mapping[str, Any]) -> Any:
    """The agent with its first prompt."""
    return answer(world, task, "v1")


def v2(world: World, task: Mapping[str, Any]) -> Any:
    """With the prompt that says which date is which."""
    return answer(world, task, "v2")


def v3(world: World, task: Mapping[str, Any]) -> Any:
    """With a prompt that also asks the depot, which no run of v1 ever did."""
    return answer(world, task, "v3")


def answer(world: World, task: Mapping[str, Any], prompt: str) -> Any:
    """Answers one ticket; `task` has `letter`, `order_id`, `from`, the model's `seed`, and whether
    the mail service honours idempotency keys."""
    services = Client.of_environment()
    asked = {"letter": task["letter"], "from": task["from"], "order_id": task["order_id"]}
    messages: list[Any] = [
        {"role": "system", "content": PROMPTS[prompt]},
        {"role": "user", "content": asked},
    ]
    for _ in range(MAX_STEPS):
        request = {
            "provider": PROVIDER,
            "requested_model": MODEL,
            "settings": {"seed": task["seed"]},
            "messages": list(messages),
        }
        said = world.model(MODEL, request, services.ask_model)["message"]
        if "tool" not in said:
            world.message("assistant", said["content"])
            return {"answer": said["content"]}
        messages.append({"role": "assistant", "content": said})
        result, failures = _use(world, services, said, honours_key=task["mail_honours_keys"])
        done = {"tool": said["tool"], "result": result, "failures": failures}
        messages.append({"role": "tool", "content": done})
    raise RuntimeError("the model never came to an answer")


def _use(
    world: World, services: Client, said: Mapping[str, Any], *, honours_key: bool
) -> tuple[Any, list[str]]:
    """What the tool gave that the model asked for, and the failures before it did."""
    name, arguments = said["tool"], said["arguments"]
    if name == "send_email":
        sent = world.effect(
            name, arguments, services.send_email, honours_key=honours_key, capability="email"
        )
        return sent, []
    failures: list[str] = []
    for _ in range(TRIES):
        try:
            found = world.tool(name, arguments, lambda given: services.look_up(name, given))
        except CallFailed as failed:
            failures.append(failed.message)
        else:
            return found, failures
    raise RuntimeError("a tool failed too often")
