"""How often the example's agent goes wrong: live, recorded, replayed with other prompts.

Nothing here is set: each figure is counted.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.demo.support import agent
from pipeline.demo.support.client import Client
from pipeline.demo.support.services import Services
from pipeline.emitter import MatchingPolicy, Recording
from pipeline.emitter.calls import Answer, Call
from pipeline.emitter.policy import Rule
from pipeline.errors import PipelineError
from pipeline.replay.batch import Batch
from pipeline.replay.difference import Declared, first_difference
from pipeline.replay.record import RecordedRun, recorded_run
from pipeline.replay.regression import Regression, regression
from pipeline.replay.session import SAME, Kept, Replayed, Rules

POLICY: Final = MatchingPolicy(rules={"effect:send_email": Rule(free=("/arguments/text",))})
"""What a replay with another prompt may write otherwise: the text of the e-mail."""

PROMPT: Final = Declared(prompt=True)


@dataclass(frozen=True, slots=True)
class Live:
    """A live run: its record, the text that the customer got, what the agent returned."""

    run: RecordedRun
    text: str
    returned: Any


@dataclass(frozen=True, slots=True)
class Lab:
    """Runs agents against the services and replays them; `runs` of each kind."""

    services: Services
    recording: Recording
    rules: Rules
    seed: int
    runs: int
    say: Callable[[str], None] = field(repr=False)

    def measure(self) -> tuple[dict[str, Any], Regression]:
        """The figures, as fractions, and the replay that was to give a warning."""
        recorded = self._live(agent.v1, self.seed)
        again = self._live(agent.v1, None)
        live = {
            name: self._live(each, self.seed + number)
            for number, (name, each) in enumerate((("v1", agent.v1), ("v2", agent.v2)), start=1)
        }
        self.say(f"replaying {self.runs} runs exactly")
        same = self._exact(recorded)
        runs = [each.run for each in recorded]
        second, third = self._hybrid("v2", runs), self._hybrid("v3", runs)
        return {
            "live_different": _rate(
                one.text != other.text for one, other in zip(recorded, again, strict=True)
            ),
            "replay_same": same,
            "wrong_live_v1": _rate(is_wrong(each.run) for each in live["v1"]),
            "wrong_live_v2": _rate(is_wrong(each.run) for each in live["v2"]),
            "wrong_recorded_v1": _rate(is_wrong(run) for run in runs),
            "wrong_replayed_v2": second.rate("wrong"),
            "miss_rate": third.miss_rate,
            "first_difference": self._first_difference(runs, second.replayed),
        }, third

    def _live(self, run_agent: Callable[..., Any], seed: int | None) -> list[Live]:
        """Every task once, live; without a seed the same tasks again, as the world is by now."""
        if seed is not None:
            self.services.reset(seed, honours_keys=True)
        self.say(f"running {run_agent.__name__} live, {self.runs} times")
        Client.use(Client(self.services.address))
        before, done = len(self.services.seen()["mails"]), []
        for index in range(self.runs):
            task, kept, run_id = self.services.task(index), Kept(), f"run-{seed}-{index}"
            with self.recording.run(task, kept, run_id=run_id) as world:
                returned = run_agent(world, task)
            done.append((recorded_run(kept.events), returned))
        mails = self.services.seen()["mails"][before:]
        return [
            Live(run, mail["text"], returned)
            for (run, returned), mail in zip(done, mails, strict=True)
        ]

    def _exact(self, recorded: list[Live]) -> float:
        """How many exact replays gave the same answer, while nothing was called or sent."""
        before = self.services.seen()
        with self._batch("v1") as batch:
            replayed = [batch.recorded(each.run) for each in recorded]
        if self.services.seen() != before:
            raise PipelineError("a replay has reached the services", code="example")
        return _rate(
            each.outcome == SAME and each.returned == live.returned
            for each, live in zip(replayed, recorded, strict=True)
        )

    def _hybrid(self, version: str, runs: list[RecordedRun]) -> Regression:
        self.say(f"replaying {self.runs} runs with prompt {version}")
        client = Client(self.services.address)

        def model(call: Call) -> Answer:
            return Answer(client.ask_model(call.request))

        with self._batch(version) as batch:
            replayed = [batch.hybrid(run, ("model",), model) for run in runs]
        return regression(replayed, judge=judge)

    def _batch(self, version: str) -> Batch:
        name = f"pipeline.demo.support.agent:{version}"
        return Batch(name, self.rules, POLICY, time.time_ns() // 1_000)

    def _first_difference(
        self, runs: list[RecordedRun], replayed: tuple[Replayed, ...]
    ) -> dict[str, Any] | None:
        """Of the first run that v2 did otherwise than v1."""
        for run, other in zip(runs, replayed, strict=True):
            texts = self.rules.texts(run, by_label=False)
            found = first_difference(run, other.run, texts, PROMPT)
            if found is not None and found.kind != "redaction":
                return {"step": found.step, "boundary": found.boundary, "path": found.path}
        return None


def is_wrong(run: RecordedRun) -> bool:
    """Whether the e-mail of a run does not name the day that the carrier expected."""
    status = next(
        call.answer.body["content"]
        for call in reversed(run.calls)
        if call.name == "carrier_status" and call.answer and call.answer.is_ok
    )
    sent: Mapping[str, Any] = next(c for c in run.calls if c.boundary == "effect").request
    return status["expected"] not in sent["arguments"]["text"]


def judge(replayed: Replayed) -> str:
    """What came of a replay that went through."""
    return "wrong" if is_wrong(replayed.run) else "right"


def _rate(hits: Any) -> float:
    found = [bool(hit) for hit in hits]
    return sum(found) / len(found)
