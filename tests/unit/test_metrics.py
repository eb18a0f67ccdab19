"""What an ingest tells of itself: counted, bounded, without payload, and never in its way."""

import http.client
import json
import re
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from ingest_double import NOW_S, Ingest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.errors import UsageError
from pipeline.lag import LagWatch
from pipeline.metrics.monitor import Monitor, Outlets
from pipeline.metrics.server import parse_address, serving
from pipeline.metrics.vitals import BROKER_SILENCE_S, OVERDUE_S, SILENCE_S
from pipeline.saying import JsonLines
from redactors import load_ruleset

NAME = re.compile(r"\bredactory_[a-z_]+")


@pytest.fixture
def ingest() -> Ingest:
    return Ingest()


@pytest.fixture
def port(free_port: Callable[[], int]) -> int:
    return free_port()


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def samples(ingest: Ingest, port: int) -> dict[tuple[str, ...], float]:
    """The value of each sample by its name and the values of its labels (sorted by name)."""
    with serving(("127.0.0.1", port), ingest.vitals, pytest.fail):
        status, text = ask(port, "/metrics")
    assert status == 200
    return {
        (each.name, *each.labels.values()): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_what_workers_commit_is_added_up(ingest: Ingest, port: int) -> None:
    ingest.lag.ends = {0: 30, 1: 10}
    ingest.commit(0, 10, redactions={"email": 3}, dead_letter_codes={"null-key": 2})
    ingest.commit(
        1, 10, redactions={"email": 1}, shadow={"email": 4}, gaps=[[4, 9, "not-delivered"]]
    )
    found = samples(ingest, port)
    assert found["redactory_events_total",] == 14
    assert found["redactory_bytes_total",] == 1000
    assert found["redactory_commits_total",] == 2
    assert found["redactory_refused_total",] == 2
    assert found["redactory_redactions_total", "hash", "email"] == 4
    assert found["redactory_shadow_total", "email"] == 4
    assert found["redactory_dead_letters_total", "null-key"] == 2
    assert found["redactory_gap_offsets_total", "not-delivered"] == 5
    assert found["redactory_lag_messages", "0"] == 20
    assert found["redactory_lag_messages", "1"] == 0
    assert found["redactory_slice_age_seconds", "1"] == 3
    assert found["redactory_last_commit_timestamp_seconds", "0"] == NOW_S
    assert found["redactory_rules_info", "ab" * 32] == 1
    assert found["redactory_key_age_seconds", "k1"] == 60
    assert found["redactory_workers", "reading"] == 2


def test_a_partition_of_which_nothing_was_committed_yet_has_a_lag(
    ingest: Ingest, port: int
) -> None:
    ingest.report.starts[0] = 5
    ingest.lag.ends = {0: 12, 1: 0}
    ingest.update()
    found = samples(ingest, port)
    assert found["redactory_lag_messages", "0"] == 7
    assert ("redactory_last_commit_timestamp_seconds", "0") not in found


def test_what_a_producer_calls_its_rules_becomes_no_series(ingest: Ingest, port: int) -> None:
    secret = "jane-" + "doe"
    ingest.commit(0, 10, redactions={secret: 1, f"{secret}-2": 2, "memory:field-password": 1})
    found = samples(ingest, port)
    assert found["redactory_redactions_total", "other", "other"] == 3
    assert found["redactory_redactions_total", "mask", "memory:field-password"] == 1
    assert not any(secret in label for sample in found for label in sample)


def test_rules_whose_action_changes_are_counted_apart(ingest: Ingest, port: int) -> None:
    ingest.commit(0, 10, redactions={"email": 3})
    email = next(rule for rule in load_ruleset().rules if rule.id == "email")
    changed = email.model_copy(update={"action": "mask"})
    ingest.vitals.take_up(load_ruleset().model_copy(update={"rules": (changed,)}))
    ingest.commit(0, 20, redactions={"email": 1})
    found = samples(ingest, port)
    assert found["redactory_redactions_total", "hash", "email"] == 3
    assert found["redactory_redactions_total", "mask", "email"] == 1


def test_a_partition_is_overdue_that_gets_no_commit_though_there_is_something_to_read(
    ingest: Ingest,
) -> None:
    ingest.update(1000)
    assert ingest.vitals.unready() == []  # nothing comes: nothing is late
    ingest.lag.ends = {0: 10, 1: 0}
    ingest.update(OVERDUE_S)
    assert ingest.vitals.unready() == []
    ingest.update(OVERDUE_S + 1)
    assert ingest.vitals.unready() == ["overdue partitions: 0"]
    ingest.commit(0, 5)  # behind, and at work
    assert ingest.vitals.unready() == []
    ingest.update(OVERDUE_S + 1)
    assert ingest.vitals.unready() == ["overdue partitions: 0"]
    ingest.commit(0, 10)
    assert ingest.vitals.unready() == []


def test_an_ingest_without_its_broker_is_healthy_and_not_ready(ingest: Ingest) -> None:
    ingest.update(BROKER_SILENCE_S + 1, answers=False)
    assert ingest.vitals.unhealthy() == []
    assert ingest.vitals.unready() == ["the broker does not answer"]


def test_a_worker_that_is_started_again_is_missed_after_a_while_only(ingest: Ingest) -> None:
    ingest.report.workers.running, ingest.report.workers.reading = 1, {0}
    ingest.update(SILENCE_S)
    assert ingest.vitals.unhealthy() == []
    assert ingest.vitals.unready() == ["1 of 2 workers read"]
    ingest.update(1)
    assert ingest.vitals.unhealthy() == ["1 of 2 workers run"]
    ingest.report.workers.wanted = 1  # the other one has done its share
    ingest.update()
    assert ingest.vitals.unready() == []


def test_an_ingest_that_stands_still_is_not_healthy(ingest: Ingest, port: int) -> None:
    with serving(("127.0.0.1", port), ingest.vitals, pytest.fail):
        assert ask(port, "/healthz") == (200, "ok\n")
        assert ask(port, "/readyz") == (200, "ok\n")
        ingest.seconds += SILENCE_S + 1
        status, why = ask(port, "/healthz")
        assert (status, why.splitlines()[0]) == (503, "the supervisor stands still")
        assert ask(port, "/readyz")[0] == 503
        assert ask(port, "/else")[0] == 404


def test_a_port_that_is_taken_is_told_and_the_ingest_goes_on(ingest: Ingest) -> None:
    said: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with serving(("127.0.0.1", taken.getsockname()[1]), ingest.vitals, said.append):
            pass
    assert len(said) == 1
    assert said[0].startswith("no metrics: 127.0.0.1:")


def test_what_fails_in_the_metrics_is_told_once_and_never_raised(ingest: Ingest, port: int) -> None:
    said: list[str] = []
    monitor = Monitor(ingest.vitals, said.append)
    ingest.report.counts = Counter(commits=1)
    ingest.report.redactions = cast(Any, "the payload")
    monitor.update(ingest.report, cast(LagWatch, ingest.lag))
    assert said == []  # nobody asks
    with monitor.telling(Outlets(("127.0.0.1", port))):
        for _ in range(3):
            monitor.update(ingest.report, cast(LagWatch, ingest.lag))
        monitor.take_up("ab" * 32)  # there is no lake
    assert said == ["metrics are incomplete: TypeError; the ingest goes on"]


def test_dashboard_alerts_and_docs_name_what_is_exported(
    ingest: Ingest, port: int, checkout: Path
) -> None:
    ingest.vitals.swept(is_complete=True, rows=3)
    with serving(("127.0.0.1", port), ingest.vitals, pytest.fail):
        _, text = ask(port, "/metrics")
    exported = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    dashboard = json.loads((checkout / "deploy/grafana/redactory.json").read_text())
    queries = [query["expr"] for panel in dashboard["panels"] for query in panel["targets"]]
    queries += [each["query"]["query"] for each in dashboard["templating"]["list"][1:]]
    alerts = yaml.safe_load((checkout / "deploy/prometheus/alerts.yaml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    for rule in rules:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("warning", "critical")
    queries += [rule["expr"] for rule in rules]
    named = [set(NAME.findall(query)) for query in queries]
    assert all(named)
    assert set().union(*named) <= exported
    docs = (checkout / "docs/running.md").read_text()
    assert set(NAME.findall(docs)) == exported


def test_dashboard_panels_have_a_place_each(checkout: Path) -> None:
    dashboard = json.loads((checkout / "deploy/grafana/redactory.json").read_text())
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    taken = [
        (at["x"] + x, at["y"] + y) for at in places for x in range(at["w"]) for y in range(at["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def test_a_sweep_is_counted_and_its_time_is_that_of_the_last_complete_one(
    ingest: Ingest, port: int
) -> None:
    ingest.vitals.swept(is_complete=True, rows=3)
    ingest.seconds += 60
    ingest.vitals.swept(is_complete=False, rows=2)
    found = samples(ingest, port)
    assert found["redactory_swept_rows_total",] == 5
    assert found["redactory_sweeps_total", "incomplete"] == 1
    assert found["redactory_last_sweep_timestamp_seconds",] == NOW_S


@pytest.mark.parametrize("wrong", ["9464", "host", "host:0", "host:70000", "a b:1", "::1:9464"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        parse_address(wrong)


def test_addresses_are_hosts_with_ports() -> None:
    assert parse_address("127.0.0.1:9464") == ("127.0.0.1", 9464)
    assert parse_address("[::1]:9464") == ("::1", 9464)


def test_json_lines_are_objects_and_come_now_and_then(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = JsonLines()
    for state in ("", "", "waiting"):
        lines.show("so far", state, {"events": 3})
    lines.say("rules changed", "warning")
    lines.fail("it is over", "start again")
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["level"], each["message"]) for each in found] == [
        ("info", "so far"),
        ("warning", "so far"),
        ("warning", "rules changed"),
        ("error", "it is over"),
    ]
    assert (found[0]["events"], found[3]["hint"]) == (3, "start again")
    assert found[0]["time"].endswith("+00:00")
