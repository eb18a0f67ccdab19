"""An afternoon with the rules: from another tool's rule to rows that were masked again."""

import itertools
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from running import COMMAND, kill, query, redactory, succeed, until

from pipeline.demo_agent import demo_events
from schemas import encode

GITLEAKS = r"""
[[rules]]
id = "order-number"
description = "Number of an order of the shop"
regex = '''\bORD-[0-9]{6}\b'''
keywords = ["ord-"]
"""
RULE = "gitleaks-order-number"


class Demo:
    """The demo agent's runs, to be sent one after the other."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic, self._seeds, self.sent = topic, itertools.count(1), 0

    def send(self) -> None:
        events = list(demo_events(1, seed=next(self._seeds), now_us=time.time_ns() // 1000))
        self.sent += len(events)
        for event in events:
            self._producer.produce(self._topic, encode(event), key=event.run_id.encode())
        assert self._producer.flush(30) == 0


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """What a reviewer makes of a gitleaks rule: imported, in shadow, with examples and an owner."""
    (tmp_path / "gitleaks.toml").write_text(GITLEAKS)
    path = tmp_path / "ours.yaml"
    imported = succeed("rules", "import", tmp_path / "gitleaks.toml", "--from", "gitleaks")
    path.write_text(imported)
    asked = redactory("rules", "check", "--rules", path)
    assert (asked.returncode, "owner" in asked.stdout) == (1, True)
    changed(path, owner="orders", matches=["about order ORD-{{digits:6}}: "], mode="shadow")
    assert "has no example" not in redactory("rules", "check", "--rules", path).stdout
    changed(path, rejects=["ORD-{{digits:5}}", "WORD-{{digits:6}}"])
    succeed("rules", "check", "--rules", path)
    return path


def changed(path: Path, **fields: Any) -> None:
    document = yaml.safe_load(path.read_text())
    (rule,) = document["rules"]
    rule.update(fields)
    path.with_suffix(".new").write_text(yaml.safe_dump(document))
    path.with_suffix(".new").rename(path)


@pytest.fixture
def ingest(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path, rules: Path
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A topic, and an ingest of it that runs."""
    topic = make_topic()
    words = [
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", tmp_path / "lake"),
        *("--keys", tmp_path / "keys.json", "--rules", rules, "--flush-interval-s", "0.5"),
    ]
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    yield topic, process
    if process.poll() is None:
        kill(process)


def found(*words: str | Path) -> Any:
    return json.loads(succeed(*words, "--json"))


@pytest.mark.timeout(600)
def test_a_rule_of_another_tool_comes_to_act_on_all_that_is_stored(
    ingest: tuple[str, subprocess.Popen[str]], bootstrap: str, tmp_path: Path, rules: Path
) -> None:
    (topic, process), lake, keys = ingest, tmp_path / "lake", tmp_path / "keys.json"
    demo = Demo(bootstrap, topic)
    demo.send()
    until(lambda: any((lake / "events").rglob("*.parquet")), "rows are stored", 120)
    count = "SELECT count(*) AS n FROM events"
    until(lambda: query(lake, count) == [{"n": demo.sent}], "all rows are stored")
    # In shadow it counts what it would mask.
    (trial,) = found("rules", "shadow", lake)
    assert trial["rule"] == RULE and trial["count"] > 0
    assert all("[SECRET]" in sample and "ORD-" not in sample for sample in trial["samples"])
    # Acting, it would mask as much of what is stored, and leak nothing.
    acting = tmp_path / "acting.yaml"
    acting.write_text(rules.read_text())
    changed(acting, mode="act")
    difference = found("rules", "diff", rules, acting, "--over", lake, "--keys", keys)
    assert difference["counts"]["newly_masked"] == trial["count"] + 1  # and in its example
    assert difference["counts"]["no_longer_masked"] == 0
    assert found("rules", "gate", "--rules", acting)["ok"]
    # The ingest takes it up.
    changed(rules, mode="act")

    def is_taken_up() -> bool:
        demo.send()
        return sum(1 for each in found("rules", "history", lake) if each["written"]) == 2

    until(is_taken_up, "rows under the new rules", 120)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    before, after = found("rules", "history", lake)
    left = "SELECT count(*) AS n FROM events WHERE body LIKE '%ORD-%' AND ruleset = '{}'"
    assert query(lake, left.format(before["digest"]))[0]["n"] > 0
    assert query(lake, left.format(after["digest"]))[0]["n"] == 0
    # What was stored before is masked again.
    words = ("--lake", lake, "--rules", rules, "--keys", keys, "--reason", "order numbers")
    redactory("rescrub", *words)
    rows = query(lake, "SELECT DISTINCT ruleset FROM events WHERE body LIKE '%[SECRET]%'")
    assert [row["ruleset"] for row in rows] == [after["digest"]]
    assert query(lake, "SELECT count(*) AS n FROM events WHERE body LIKE '%ORD-%'")[0]["n"] == 0
    (again,) = [each for each in found("rules", "history", lake) if each["rewritten"]]
    assert again["digest"] == after["digest"]
    succeed("verify", "--lake", lake, "--keys", keys)
    # And what was reviewed is one page.
    page = tmp_path / "report.html"
    since = ("--since", before["digest"])
    succeed("rules", "report", "--lake", lake, "--rules", rules, "--html", page, *since)
    text = page.read_text()
    assert RULE in text and "orders" in text and "[SECRET]" in text
    assert not re.search(r"ORD-[0-9]{6}", text)
