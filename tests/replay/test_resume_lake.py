"""A resume from a lake, with a real broker: never from one that lags behind the topic."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from demo_lake import ingest_events
from replay_samples import KEYS, recording
from typer.testing import CliRunner

from pipeline.cli.main import app
from pipeline.emitter import Emitter, Spool
from pipeline.emitter.ids import system_clock
from pipeline.emitter.spool import read_spool
from pipeline.errors import PipelineError, UsageError
from pipeline.replay.session import Kept
from schemas import RunEvent

AGENT = """
def agent(world, task):
    first = world.tool("count", {"n": 1}, lambda asked: asked["n"] + 10)
    return [first, world.tool("count", {"n": 2}, lambda asked: asked["n"] + 20)]
"""


@pytest.fixture
def events() -> list[RunEvent]:
    """What a run left that died in its second call."""
    kept, code = Kept(), {}  # type: ignore[var-annotated]  # a module's names
    exec(AGENT, code)
    with recording(clock=system_clock).run(None, kept, run_id="run-1") as world:
        code["agent"](world, None)
    assert [event.kind for event in kept.events[-2:]] == ["tool.responded", "run.finished"]
    return kept.events[:-2]


def test_a_resume_goes_on_from_a_lake_only_if_it_has_all_that_the_topic_has(
    events: list[RunEvent], tmp_path: Path, bootstrap: str, make_topic: Callable[..., str]
) -> None:
    topic, now_us = make_topic(), system_clock()
    (tmp_path / "lake_agent.py").write_text(AGENT)
    KEYS.save(tmp_path / "keys.json")
    with Emitter(bootstrap, topic) as emitter:
        for event in events:
            emitter.emit(event)
    for name, have in (("behind", events[:-1]), ("whole", events)):
        ingest_events(tmp_path / name, have, now_us, keys=KEYS, topic=topic)
    spool = tmp_path / "run.spool"

    def resume(lake: str, *more: str) -> Any:
        asked = ["resume", "run-1", "--agent", "lake_agent:agent", "--path", str(tmp_path)]
        files = ["--spool", str(spool), "--keys", str(tmp_path / "keys.json")]
        journals = ["--journals", str(tmp_path / "open"), "--lake", str(tmp_path / lake)]
        return CliRunner().invoke(app, [*asked, *files, *journals, *more])

    lags = resume("behind", "--bootstrap", bootstrap).exception
    assert isinstance(lags, PipelineError), lags
    assert (lags.code, lags.exit_code) == ("lake-lags", 3)
    assert isinstance(resume("whole").exception, UsageError), "who tells, without a broker?"
    left = Spool(spool)
    left.emit(events[-1])
    left.close()
    undelivered = resume("whole", "--bootstrap", bootstrap).exception
    assert isinstance(undelivered, PipelineError) and undelivered.code == "spool-not-delivered"
    spool.unlink()
    done = resume("whole", "--bootstrap", bootstrap)
    assert json.loads(done.stdout) == [11, 22], done.exception
    kinds = [event.kind for event in read_spool(spool)]
    assert kinds == ["tool.responded", "run.finished"]
