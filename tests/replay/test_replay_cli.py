"""`redactory replay`, `diff` and `resume`, as a user meets them, over a lake and over files."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_lake import ingest_events
from replay_samples import KEYS, recording
from running import redactory, succeed

from pipeline.emitter.ids import system_clock
from pipeline.errors import PipelineError
from pipeline.lake import open_lake
from pipeline.records.reading import read_run
from pipeline.replay.archive import check_caught_up
from pipeline.replay.session import Kept
from pipeline.retention.access import read_reads
from pipeline.retention.copies import read_copies

ADDRESS = "jane.doe@example.com"
AGENT = '''
"""An agent for the command line."""


def agent(world, task, prompt="Be kind."):
    asked = {"requested_model": "m", "messages": [{"role": "system", "content": prompt}]}
    said = world.model("m", asked, lambda request: {"message": "yes"})["message"]
    order = world.tool("order", {"n": 1}, lambda given: {"email": "jane.doe" + "@example.com"})
    world.effect("send", {"to": order["email"], "text": said}, sends)
    world.message("assistant", said)
    return said


def sends(given, key):
    import os, pathlib
    with pathlib.Path(os.environ["SENT"]).open("a") as file:
        file.write(given["to"] + " " + key + "\\\\n")
    if os.environ.get("DIES"):
        os.kill(os.getpid(), 9)
    return {"queued": True}


def brief(world, task):
    return agent(world, task, "Be brief.")


def other(world, task):
    return world.tool("order", {"n": 2}, None)


def answers(boundary, request):
    return {"message": "no" if request["messages"][0]["content"] == "Be brief." else "yes"}
'''


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake with four runs, the keys, and an agent's code in a folder of its own."""
    home = tmp_path_factory.mktemp("home")
    (home / "code").mkdir()
    (home / "code" / "cli_agent.py").write_text(AGENT.replace("\\\\n", "\\n"))
    KEYS.save(home / "keys.json")
    kept = Kept()
    code: dict[str, Any] = {}
    exec(compile(AGENT.replace("\\\\n", "\\n"), "cli_agent", "exec"), code)
    os.environ["SENT"] = str(home / "sent.txt")
    try:
        for number in range(4):
            made = recording(clock=system_clock)
            with made.run({"n": number}, kept, run_id=f"run-{number}") as world:
                code["agent"](world, {"n": number})
    finally:
        del os.environ["SENT"]
    ingest_events(home / "lake", kept.events, system_clock(), keys=KEYS)
    yield home


def words(home: Path, *more: str) -> tuple[str, ...]:
    return ("--lake", str(home / "lake"), "--keys", str(home / "keys.json"), *more)


def code(home: Path, name: str) -> tuple[str, ...]:
    return ("--agent", f"cli_agent:{name}", "--path", str(home / "code"))


def test_a_recorded_replay_over_a_lake_is_the_same_and_sends_nothing(home: Path) -> None:
    before = (home / "sent.txt").read_text()
    done = succeed("replay", "run-1", *words(home, "--json"), *code(home, "agent"))
    (told,) = json.loads(done)["replays"]
    assert (told["outcome"], told["returned"]) == ("same", "yes")
    assert told["isolation"] == {"sockets": "seccomp", "programs": "seccomp", "files": "landlock"}
    assert (home / "sent.txt").read_text() == before


def test_code_that_asks_otherwise_ends_with_1_and_names_the_place(home: Path) -> None:
    done = redactory("replay", "run-1", *words(home), *code(home, "brief"))
    assert done.returncode == 1
    assert "step 0, model m: at /messages/0/content" in done.stdout
    assert ADDRESS not in done.stdout + done.stderr


def test_forensic_shows_what_was_recorded_and_writes_the_read_down(home: Path) -> None:
    done = succeed("replay", "run-1", "--mode", "forensic", *words(home, "--json"))
    told = json.loads(done)
    assert [call["name"] for call in told["calls"]] == ["m", "order", "send"]
    assert set(told["effects"].values()) == {"completed"}
    assert ADDRESS not in done
    reads = [r for r in read_reads(open_lake(home / "lake").store) if r.run == "run-1"]
    assert reads and reads[-1].command == "replay"


def test_a_hybrid_replay_over_a_query_counts_its_misses(home: Path) -> None:
    asked = (
        *("replay", "--mode", "hybrid", "--over", "SELECT run_id FROM runs ORDER BY run_id"),
        *words(home, "--json"),
        *code(home, "brief"),
        *("--provider", "cli_agent:answers"),
    )
    counted = redactory(*asked, "--on-miss", "count")
    told = json.loads(counted.stdout)
    assert counted.returncode == 0
    # The e-mail's text differs, and the policy leaves no field of it free.
    assert (told["runs"], told["misses"], told["miss_rate"]) == (4, 4, 1.0)
    assert "never recorded" in counted.stderr
    assert [each["substituted"] for each in told["replays"]] == [["model"]] * 4


def test_without_the_kernel_a_replay_says_so_and_ends_with_3(home: Path) -> None:
    asked = ("replay", "run-1", *words(home), *code(home, "agent"), "--isolation", "audit-hook")
    refused = redactory(*asked)
    assert refused.returncode == 3
    assert "audit hook" in refused.stderr and "--accept-audit-hook" in refused.stderr
    accepted = succeed(*asked, "--accept-audit-hook")
    assert "run-1: same\n  only Python's audit hook kept it from the world" in accepted


@pytest.mark.full
def test_a_fresh_run_needs_an_authority_for_each_call(home: Path) -> None:
    asked = ("replay", "run-1", "--mode", "fresh", *words(home), *code(home, "agent"))
    asked = (*asked, "--run-id", "fresh-1", "--json")
    sent = home / "fresh.txt"
    refused = redactory(*asked, SENT=str(sent))
    (told,) = json.loads(refused.stdout)["replays"]
    assert (refused.returncode, told["outcome"]) == (3, "unauthorised")
    some = ("--allow", "model:*", "--allow", "tool:order")
    (told,) = json.loads(redactory(*asked, *some, SENT=str(sent)).stdout)["replays"]
    assert told["stopped"]["boundary"] == "effect" and not sent.exists()
    assert redactory(*asked, *some, "--allow", "effect:send", SENT=str(sent)).returncode == 2
    key = "00000000-0000-0000-0000-000000000000"
    wrong = redactory(*asked, *some, "--allow", f"effect:send={key}", SENT=str(sent))
    assert wrong.returncode == 3 and not sent.exists()
    from pipeline.emitter.calls import effect_key

    right = f"effect:send={effect_key('fresh-1', 'send', 0)}"
    assert redactory(*asked, *some, "--allow", right, SENT=str(sent)).returncode == 0
    assert sent.read_text().startswith(ADDRESS)


def test_a_bundle_is_a_registered_copy_with_a_deadline_and_can_be_replayed(home: Path) -> None:
    path = home / "runs.bundle"
    succeed("replay", "run-2", "--export", path, *words(home))
    assert path.stat().st_mode & 0o777 == 0o600
    (copy,) = [c for c in read_copies(open_lake(home / "lake").store) if c.location == str(path)]
    assert copy.kind == "bundle" and copy.deadline_us > system_clock()
    asked = ("replay", "--from", path, "--keys", home / "keys.json", *code(home, "agent"))
    assert "run-2: same" in succeed(*asked)
    head, rest = path.read_text().split("\n", 1)
    late = home / "late.bundle"
    late.write_text(json.dumps({**json.loads(head), "deadline_us": 1}) + "\n" + rest)
    expired = redactory("replay", "--from", late, *asked[3:])
    assert expired.returncode == 3 and "past its deadline" in expired.stderr


@pytest.mark.full
def test_new_capture_is_written_only_where_it_was_asked_for(home: Path) -> None:
    path = home / "captured.jsonl"
    succeed("replay", "run-1", *words(home), *code(home, "agent"), "--capture", path)
    assert (
        redactory(
            "replay", "run-1", *words(home), *code(home, "agent"), "--capture", path
        ).returncode
        == 2
    )
    done = redactory("diff", "run-1", "run-1", *words(home), "--other-from", path)
    assert (done.returncode, done.stdout.strip()) == (0, "no difference")


def test_diff_ends_with_1_where_there_is_a_difference(home: Path) -> None:
    done = redactory("diff", "run-1", "run-2", *words(home, "--all", "--json"))
    assert done.returncode == 0 and json.loads(done.stdout) == []
    path, page = home / "brief.jsonl", home / "diff.html"
    captured = redactory(
        *("replay", "run-1", "--mode", "hybrid", *words(home), *code(home, "brief")),
        *("--provider", "cli_agent:answers", "--on-miss", "count", "--capture", path),
    )
    assert captured.returncode == 0
    asked = ("diff", "run-1", "run-1", *words(home), "--other-from", path, "--prompt")
    done = redactory(*asked, "--html", page)
    assert done.returncode == 1
    assert "step 0: model m, answer /message [behaviour]" in done.stdout
    assert "<table>" in page.read_text() and page.stat().st_mode & 0o777 == 0o600


@pytest.mark.full
def test_without_its_key_a_run_is_refused(home: Path, tmp_path: Path) -> None:
    KEYS.generate().save(tmp_path / "other.json")
    asked = ("replay", "run-1", "--lake", home / "lake", *code(home, "agent"))
    done = redactory(*asked, "--keys", tmp_path / "other.json")
    assert done.returncode == 3 and "key ring" in done.stderr


@pytest.mark.full
def test_a_killed_agent_is_resumed_and_sends_nothing_twice(home: Path, tmp_path: Path) -> None:
    sent, spool = tmp_path / "sent.txt", tmp_path / "run.spool"
    (tmp_path / "life.py").write_text(
        "import sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(home / 'code')!r})\n"
        "import cli_agent\n"
        "from pipeline.emitter import Recording, Spool\n"
        "from redactors import KeyRing\n"
        "from schemas import Producer\n"
        f"keys = KeyRing.load(Path({str(home / 'keys.json')!r}))\n"
        f"open_ = Path({str(tmp_path / 'open')!r})\n"
        "made = Recording.of(Producer('a', '1'), keys, journals=open_)\n"
        f"with made.run({{'n': 1}}, Spool(Path({str(spool)!r})), run_id='run-9') as world:\n"
        "    cli_agent.agent(world, {'n': 1})\n"
    )
    import signal
    import subprocess
    import sys

    died = subprocess.run(
        [sys.executable, str(tmp_path / "life.py")],
        env={**os.environ, "SENT": str(sent), "DIES": "1"},
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    asked = ("resume", "run-9", *code(home, "agent"), "--spool", spool)
    asked = (*asked, "--journals", tmp_path / "open", "--keys", home / "keys.json")
    stopped = redactory(*asked, SENT=str(sent))
    assert stopped.returncode == 3 and "--resend-unknown" in stopped.stderr
    assert json.loads(succeed(*asked, "--resend-unknown", SENT=str(sent))) == "yes"
    addresses, keys = zip(*(line.split() for line in sent.read_text().splitlines()), strict=True)
    assert addresses == (ADDRESS, ADDRESS) and len(set(keys)) == 1
    again = redactory(*asked, SENT=str(sent))
    assert again.returncode == 2 and "has ended" in again.stderr


def test_a_resume_never_reads_a_lake_that_lags(home: Path) -> None:
    lake = open_lake(home / "lake")
    view = read_run(lake, "run-1")
    end = max(h.position.next_offset or 0 for h in lake.histories)
    check_caught_up(lake, view, lambda topic, partition: end)
    with pytest.raises(PipelineError) as caught:
        check_caught_up(lake, view, lambda topic, partition: end + 1)
    assert caught.value.code == "lake-lags"
