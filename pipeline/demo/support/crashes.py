"""Agents that are killed right after a tool has run and before its result is saved, and what their
recovery costs: e-mails that the customer gets, and model calls.

Every cell of the table is two real processes, the first of which kills itself.
"""

import multiprocessing
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.demo.support import agent
from pipeline.demo.support.client import Client, ServiceError
from pipeline.demo.support.services import Services
from pipeline.emitter import Recording, Spool
from pipeline.emitter.spool import read_spool
from pipeline.errors import PipelineError
from pipeline.replay.record import recorded_run
from pipeline.replay.resume import restart, resume
from pipeline.replay.session import Rules

DEATHS: Final = ("get_order", "carrier_status", "send_email")
RECOVERIES: Final = ("restart_no_key", "resume_no_key", "restart_key", "resume_key")
TASKS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Bench:
    """What every cell needs; files go to `folder`."""

    services: Services
    recording: Recording
    rules: Rules
    folder: Path
    seed: int


def crash_table(bench: Bench, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """`emails`, `distinct_texts` and `model_calls` by tool died after and recovery."""
    index = _drifting_task(bench)
    table: dict[str, dict[str, Any]] = {}
    for death in DEATHS:
        say(f"killing agents right after {death}")
        table[death] = {recovery: _cell(bench, index, death, recovery) for recovery in RECOVERIES}
    return table


def _drifting_task(bench: Bench) -> int:
    """The first task whose carrier answers differently when it is asked again, if there is one:
    only there does a restart send another date."""
    client = Client(bench.services.address)
    bench.services.reset(bench.seed, honours_keys=True)
    for index in range(TASKS_MAX):
        order = client.look_up("get_order", bench.services.task(index))
        asked = {"tracking_id": order["tracking_id"]}
        if _status(client, asked) != _status(client, asked):
            return index
    return 0


def _status(client: Client, asked: dict[str, Any]) -> Any:
    try:
        return client.look_up("carrier_status", asked)
    except ServiceError:
        return client.look_up("carrier_status", asked)


def _cell(bench: Bench, index: int, death: str, recovery: str) -> dict[str, int]:
    way, _, sink = recovery.partition("_")
    bench.services.reset(bench.seed, honours_keys=sink == "key")
    task, run_id = bench.services.task(index), f"{death}-{recovery}"
    record = bench.folder / f"{run_id}.spool"
    died = _process(_first_life, bench, task, record, run_id, death)
    if died != -signal.SIGKILL:
        raise PipelineError("an agent did not die where it should", code="example")
    before = bench.services.seen()["counts"]["/model"]
    if _process(_second_life, bench, record, way):
        raise PipelineError("an agent did not recover", code="example")
    seen = bench.services.seen()
    texts = [mail["text"] for mail in seen["mails"] if mail["to"] == task["from"]]
    return {
        "emails": len(texts),
        "distinct_texts": len(set(texts)),
        "model_calls": seen["counts"]["/model"] - before,
    }


def _process(target: Callable[..., None], *arguments: Any) -> int | None:
    """Runs a function in a process of its own; its exit code."""
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def _first_life(bench: Bench, task: Any, record: Path, run_id: str, death: str) -> None:
    Client.use(Client(bench.services.address, dies_after=death))
    with bench.recording.run(task, Spool(record), run_id=run_id) as world:
        agent.v1(world, task)


def _second_life(bench: Bench, record: Path, way: str) -> None:
    Client.use(Client(bench.services.address))
    run, sink = recorded_run(read_spool(record)), Spool(record)
    if way == "restart":
        restart(agent.v1, run, sink, bench.recording)
        return
    # A mail service that honours no keys cannot say what became of an e-mail either.
    resume(agent.v1, run, sink, bench.recording, bench.rules, resend_unknown=True)
