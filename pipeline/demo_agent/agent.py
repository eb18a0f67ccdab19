"""A scripted support agent: looks up an order, asks the carrier, sends an e-mail, answers.

No model and no service is called; the runs are told from a seed.  They cover what real runs do:
a carrier whose failure message leaks a key, a first attempt that fails and is tried again, an
effect of which nobody knows whether it happened, a supervisor who steps in.
"""

import hashlib
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from pipeline.demo_agent.cast import Case, case
from pipeline.emitter.ids import uuid7
from pipeline.emitter.recorder import RunRecorder
from schemas import Producer, RunEvent, kinds

AGENT: Final = Producer("demo-support-agent", "1.0")
MODEL: Final = "scripted-1"
PROVIDER: Final = "demo"
TOOLS: Final = ["lookup_order", "ask_carrier", "send_email"]

STEP_US: Final = (20_000, 900_000)
"""How long a step takes, at least and at most."""

RUN_US: Final = 60_000_000
"""No run takes longer; the last one ends before the demo's `now`."""


def demo_events(runs: int, seed: int, now_us: int) -> Iterator[RunEvent]:
    """The events of so many runs, each within the minute before the next, the last before `now_us`.

    The same arguments give the same events, ids included.
    """
    for index in range(runs):
        random = Random(f"{seed}/{index}")
        start_us = now_us - (runs - index) * RUN_US
        run_id = uuid7(start_us, random.randbytes(8))
        attempts = 2 if index % 7 == 3 else 1
        about = case(random)
        for attempt in range(1, attempts + 1):
            script = _Script(random, about, run_id, start_us, attempt, index)
            yield from script.events(is_lost=attempt < attempts)
            start_us = script.now_us


class _Script:
    """One attempt, told from its beginning to its end."""

    def __init__(
        self, random: Random, about: Case, run_id: str, start_us: int, attempt: int, index: int
    ) -> None:
        self.now_us = start_us
        self._random, self._case, self._index = random, about, index
        self._record = RunRecorder(
            run_id,
            AGENT,
            attempt=attempt,
            retry_of=run_id if attempt > 1 else None,
            retention_class="debug" if index % 5 == 4 else None,
            subjects=(about.customer.customer_id,),
            clock=self._step,
            new_id=lambda: uuid7(self.now_us, random.randbytes(8)),
        )
        self._calls = 0
        self._captured = ""

    def events(self, *, is_lost: bool) -> Iterator[RunEvent]:
        """`is_lost`: the carrier never answers and the attempt fails."""
        yield from self._beginning()
        yield from self._look_up_order()
        yield from self._ask_carrier(is_lost=is_lost)
        if is_lost:
            yield self._finish("failed", "the carrier did not answer")
            return
        yield from self._decide()
        yield from self._send_email()
        yield from self._ending()

    def _step(self) -> int:
        self.now_us += self._random.randrange(*STEP_US)
        return self.now_us

    def _beginning(self) -> Iterator[RunEvent]:
        event, about = self._record.event, self._case
        trigger = {"type": "ticket", "id": about.ticket_id}
        yield event("run.started", kinds.RunStarted(trigger=trigger, parent=None))
        task = {
            "ticket": about.ticket_id,
            "goal": "find out where the parcel is and tell the customer",
            "from": about.customer.email,
            "text": about.letter(),
        }
        yield event("task.captured", kinds.TaskCaptured(task=task, source="tickets"))
        yield event(
            "workspace.captured",
            kinds.WorkspaceCaptured(
                repository="support/playbooks", commit=_digest("playbooks")[7:47], clean=True
            ),
        )
        yield event(
            "policy.captured",
            kinds.PolicyCaptured(
                factory_revision="2026.2",
                prompts=[_reference("support-system-prompt")],
                skills=[_reference("parcel-tracing")],
                harness=_reference("support-harness"),
                tools=[_reference(name) for name in TOOLS],
            ),
        )
        yield event(
            "environment.captured",
            kinds.EnvironmentCaptured(
                image=_reference("support-agent"),
                toolchain={"python": "3.11"},
                dependencies=_reference("requirements"),
                setup=[],
                cache="warm",
                resources={"cpus": 1, "memory_mb": 512},
            ),
        )
        for name, uri in (("orders", "https://orders.shop.example"), ("carrier", _CARRIER)):
            yield event(
                "integration.captured",
                kinds.IntegrationCaptured(
                    endpoint=uri,
                    contract=_reference(f"{name}-api"),
                    adapter=_reference(f"{name}-adapter"),
                    fixtures=None,
                    matching_policy="arguments",
                ),
                name=name,
            )
        yield event("message", kinds.Message(role="user", content=about.letter()))

    def _think(self, told: str, said: dict[str, Any]) -> Iterator[RunEvent]:
        """One exchange with the model: what it was told last, what it said."""
        call_id = self._call_id()
        yield self._record.event(
            "model.requested",
            kinds.ModelRequested(
                provider=PROVIDER,
                requested_model=MODEL,
                api_version="1",
                settings={"temperature": 0.0, "max_tokens": 1024},
                messages=[{"role": "user", "content": told}],
                tools=TOOLS,
            ),
            name=MODEL,
            call_id=call_id,
        )
        usage = {
            "input_tokens": 400 + len(told) // 4,
            "output_tokens": 20 + self._random.randrange(60),
        }
        yield self._record.event(
            "model.responded",
            kinds.ModelResponded(
                provider=PROVIDER,
                requested_model=MODEL,
                returned_model=f"{MODEL}-20260201",
                request_id=f"req_{self._random.randrange(16**12):012x}",
                stop_reason="tool_use" if "tool" in said else "end_turn",
                message=said,
                usage=usage,
            ),
            name=MODEL,
            call_id=call_id,
        )

    def _tool(
        self, name: str, arguments: dict[str, Any], content: Any, *, is_ok: bool = True
    ) -> Iterator[RunEvent]:
        call_id = self._call_id()
        requested = kinds.ToolRequested(arguments=arguments)
        yield self._record.event("tool.requested", requested, name=name, call_id=call_id)
        responded = kinds.ToolResponded(content=content, status="ok" if is_ok else "error")
        yield self._record.event("tool.responded", responded, name=name, call_id=call_id)

    def _look_up_order(self) -> Iterator[RunEvent]:
        arguments = {"order_id": self._case.order_id}
        yield from self._think(
            self._case.letter(), {"tool": "lookup_order", "arguments": arguments}
        )
        yield from self._tool("lookup_order", arguments, self._case.order())

    def _ask_carrier(self, *, is_lost: bool) -> Iterator[RunEvent]:
        arguments = {"tracking_id": self._case.tracking_id}
        if is_lost or self._index % 3 == 0:
            failure = self._case.carrier_failure()
            yield from self._tool("ask_carrier", arguments, {"error": failure}, is_ok=False)
            yield self._record.event(
                "error",
                kinds.Error(
                    type="CarrierRefused",
                    message=failure,
                    during="ask_carrier",
                    is_retried=not is_lost,
                ),
                name="ask_carrier",
            )
        if not is_lost:
            status = {"tracking_id": self._case.tracking_id, "state": "held", "depot": "Marlow"}
            yield from self._tool("ask_carrier", arguments, status)
            yield self._artifact("capture", "carrier-status", json.dumps(status))
        yield self._record.event(
            "input.declared",
            kinds.InputDeclared(
                input="carrier status",
                state="missing" if is_lost else "mutable",
                access_owner="carrier",
                replay_restriction="recorded answers only",
            ),
            name="carrier",
        )

    def _decide(self) -> Iterator[RunEvent]:
        approval = None
        if self._index % 4 == 1:
            approval = f"approval-{self._case.ticket_id}"
            yield self._record.event(
                "intervention",
                kinds.Intervention(
                    actor="supervisor", action="approve", reason="refund above the agent's limit"
                ),
            )
        yield self._record.event(
            "decision.made",
            kinds.DecisionMade(
                decision="refund" if approval else "send again",
                actor="supervisor" if approval else "agent",
                approval=approval,
                reason="the parcel is held at the depot",
                artifacts=[self._captured],
            ),
        )

    def _send_email(self) -> Iterator[RunEvent]:
        customer, call_id = self._case.customer, self._call_id()
        effect_id = f"effect-{call_id}"
        arguments = {"to": customer.email, "subject": "Your parcel", "text": self._answer()}
        yield self._record.event(
            "effect.intended",
            kinds.EffectIntended(
                effect_id=effect_id,
                actor="agent",
                approval=None,
                capability="email:customer",
                arguments=arguments,
            ),
            name="send_email",
            call_id=call_id,
            idempotency_key=f"{self._case.ticket_id}-answer",
        )
        if self._index % 6 == 5:
            return  # The mail server never answered: nobody knows whether the e-mail went out.
        yield self._record.event(
            "effect.completed",
            kinds.EffectCompleted(effect_id=effect_id, content={"queued": True}, status="ok"),
            name="send_email",
            call_id=call_id,
            idempotency_key=f"{self._case.ticket_id}-answer",
        )

    def _ending(self) -> Iterator[RunEvent]:
        answer = self._answer()
        yield from self._think("tell the customer", {"role": "assistant", "content": answer})
        yield self._record.event("message", kinds.Message(role="assistant", content=answer))
        yield self._artifact("report", "report", answer)
        yield self._finish("completed", "the customer was told where the parcel is")

    def _artifact(self, purpose: Any, name: str, content: str) -> RunEvent:
        self._captured = _digest(content)
        return self._record.event(
            "artifact.produced",
            kinds.ArtifactProduced(
                purpose=purpose,
                digest=self._captured,
                uri=f"artifacts/{self._case.ticket_id}/{name}",
                size_bytes=len(content.encode()),
            ),
            name=name,
        )

    def _finish(self, status: Any, summary: str) -> RunEvent:
        return self._record.event("run.finished", kinds.RunFinished(status=status, summary=summary))

    def _answer(self) -> str:
        about = self._case
        return (
            f"Dear {about.customer.full_name}, your {about.item} (order {about.order_id}) is held "
            f"at the carrier's depot. It will reach you at {about.customer.address['street']} "
            "within two days."
        )

    def _call_id(self) -> str:
        self._calls += 1
        return f"call-{self._calls}"


_CARRIER: Final = "https://api.carrier.example/v1"


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _reference(name: str) -> kinds.Reference:
    return kinds.Reference(name=name, version="1", digest=_digest(name))
