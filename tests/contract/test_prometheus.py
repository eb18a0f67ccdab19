"""Alert rules and dashboard, loaded by Prometheus and by Grafana's own library."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from running import kill, start, until
from scale import produce

# What makes each alert fire, and what is much the same and does not: series by the minute.
CASES: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "RedactoryGone": ({}, {"redactory_build_info": "1x20"}, "10m"),
    "RedactoryNotReady": ({"redactory_ready": "0x20"}, {"redactory_ready": "1x20"}, "10m"),
    "RedactoryOverdue": (
        {'redactory_overdue{partition="3"}': "1x20"},
        {'redactory_overdue{partition="3"}': "0x18 1x2"},
        "19m",
    ),
    "RedactoryFallsBehind": (
        {'redactory_lag_messages{partition="3"}': "2000+50x90"},
        {'redactory_lag_messages{partition="3"}': "9000-50x90"},
        "80m",
    ),
    "RedactoryWorkersRestart": (
        {"redactory_worker_restarts_total": "0+1x20"},
        {"redactory_worker_restarts_total": "0 2x19"},
        "20m",
    ),
    "RedactoryOffsetsLost": (
        {'redactory_gap_offsets_total{reason="expired-in-topic"}': "0x9 7x20"},
        {'redactory_gap_offsets_total{reason="transaction-marker"}': "0x9 7x20"},
        "20m",
    ),
    "RedactoryDeadLetters": (
        {
            "redactory_messages_total": "0+100x60",
            'redactory_dead_letters_total{code="not-json"}': "0+1x60",
            'redactory_dead_letters_total{code="null-key"}': "0+1x60",
        },
        {
            "redactory_messages_total": "0+1000x60",
            'redactory_dead_letters_total{code="not-json"}': "0+1x60",
        },
        "40m",
    ),
    "RedactoryEventsRefused": (
        {"redactory_refused_total": "0x9 1x20"},
        {"redactory_refused_total": "4x30"},
        "20m",
    ),
    "RedactoryMasksNothing": (
        {"redactory_events_total": "0+120x600"},
        {"redactory_events_total": "0+120x600", "redactory_redactions_total": "0+1x600"},
        "9h",
    ),
    "RedactoryRulesRefused": (
        {"redactory_rules_refused": "1x9"},
        {"redactory_rules_refused": "0x9"},
        "5m",
    ),
    "RedactoryRulesDiffer": (
        {'redactory_rules_info{digest="a"}': "1x30", 'redactory_rules_info{digest="b"}': "1x30"},
        {
            'redactory_rules_info{digest="a",instance="1"}': "1x30",
            'redactory_rules_info{digest="a",instance="2"}': "1x30",
        },
        "20m",
    ),
    "RedactorySweepLate": (
        {"redactory_last_sweep_timestamp_seconds": "60x200"},
        {"redactory_last_sweep_timestamp_seconds": "3600x200"},
        "150m",
    ),
    "RedactorySweepIncomplete": (
        {'redactory_sweeps_total{result="incomplete"}': "0x9 1x20"},
        {'redactory_sweeps_total{result="complete"}': "0x9 1x20"},
        "20m",
    ),
    "RedactoryKeyOld": (
        {'redactory_key_age_seconds{key_id="k1"}': "31536060x9"},
        {'redactory_key_age_seconds{key_id="k1"}': "31535000x9"},
        "5m",
    ),
}


NEVER = {
    "Dead letters by code", "What rules in shadow would mask", "Rows swept", "Since the last sweep",
}  # fmt: skip
"""What the dashboard asks of things that do not happen in these tests."""


@pytest.fixture(scope="module")
def programs(checkout: Path) -> Path:
    """The folder of Prometheus' programs."""
    folder = checkout / "build" / "prometheus" / "usr" / "bin"
    if not (folder / "promtool").exists():
        pytest.skip("no Prometheus here (`make prometheus` fetches it where apt-get can)")
    return folder


@pytest.fixture(scope="module")
def rules(checkout: Path) -> Path:
    return checkout / "deploy" / "prometheus" / "alerts.yaml"


@pytest.fixture(scope="module")
def dashboard(checkout: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((checkout / "deploy/grafana/redactory.json").read_text())
    return read


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_must_and_only_then(
    programs: Path, rules: Path, tmp_path: Path
) -> None:
    run(programs / "promtool", "check", "rules", rules)
    declared = yaml.safe_load(rules.read_text())["groups"][0]["rules"]
    assert {rule["alert"] for rule in declared} == set(CASES)
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": each} for name, each in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > 0',
                    "eval_time": at,
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, (firing, quiet, at) in CASES.items()
        for series, fires in ((firing, True), (quiet, False))
    ]
    asked = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(asked))
    run(programs / "promtool", "test", "rules", tmp_path / "alerts.yaml")


class Prometheus:
    """A Prometheus that asks one ingest every second."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer; None while nobody answers."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError((query, json.load(error)["error"])) from None
        except OSError:
            return None

    def value(self, query: str) -> list[float]:
        answer = self.get("query", query=query)
        return [float(each["value"][1]) for each in answer["result"]] if answer else []


@pytest.fixture
def prometheus(
    programs: Path, rules: Path, free_port: Callable[[], int], tmp_path: Path
) -> Iterator[tuple[Prometheus, int]]:
    """A running Prometheus with the alert rules, and the port that it asks."""
    port, asked = free_port(), free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": "redactory", "static_configs": [{"targets": [f"127.0.0.1:{asked}"]}]}
        ],
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    process = subprocess.Popen(
        [
            programs / "prometheus",
            f"--config.file={tmp_path / 'prometheus.yaml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Prometheus(port), asked
    finally:
        process.terminate()
        process.wait()


def test_a_prometheus_that_asks_a_running_ingest_answers_the_dashboard(
    prometheus: tuple[Prometheus, int],
    dashboard: dict[str, Any],
    bootstrap: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    server, port = prometheus
    bounds = {"retention_ms": "3600000", "segment_ms": "3600000"}  # or it is warned of
    topic = make_topic(partitions=2, **bounds)
    produce(bootstrap, topic, 2, range(40), "Tr0ub4dor" + "-and-four")
    process = start(
        *("ingest", "--bootstrap", bootstrap, "--topic", topic, "--lake", tmp_path / "lake"),
        *("--keys", tmp_path / "keys.json", "--flush-interval-s", "0.5"),
        *("--metrics", f"127.0.0.1:{port}"),
    )
    try:
        until(lambda: server.value("sum(redactory_events_total)") == [80], "all are counted")
        until(lambda: server.value("redactory_ready") == [1], "it is ready")
        loaded = server.get("rules")["groups"][0]["rules"]
        assert {rule["name"] for rule in loaded} == set(CASES)
        assert {rule["health"] for rule in loaded} <= {"ok", "unknown"}
        until(
            lambda: all(r["health"] == "ok" for r in server.get("rules")["groups"][0]["rules"]),
            "every alert rule was evaluated",
        )
        # A rate is known once a counter was asked for twice.
        until(lambda: _unanswered(server, dashboard) <= NEVER, "every other question is answered")
    finally:
        kill(process)


def _unanswered(server: Prometheus, dashboard: dict[str, Any]) -> set[str]:
    """The titles of the panels with a question that has no answer yet."""
    return {
        panel["title"]
        for panel in dashboard["panels"]
        for query in map(_filled, panel["targets"])
        if not server.get("query", query=query)["result"]
    }


def _filled(target: dict[str, str]) -> str:
    """A question of the dashboard with Grafana's variables filled in."""
    query = target["expr"].replace("$job", "redactory").replace("$instance", ".*")
    return query.replace("$__rate_interval", "1m").replace("$__range", "1h")


def test_grafanas_own_library_reads_the_dashboard_whole(dashboard: dict[str, Any]) -> None:
    register_default_plugins()
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    assert _missing(dashboard, read) == []
    dashboard["panels"][0]["gridPlace"] = {}
    assert _missing(dashboard, read) == ["/panels/0/gridPlace"]


def _missing(wanted: Any, read: Any, path: str = "") -> list[str]:
    """Where `read` lacks what is `wanted`."""
    if isinstance(wanted, dict) and isinstance(read, dict):
        return [
            lost
            for key, each in wanted.items()
            for lost in (
                _missing(each, read[key], f"{path}/{key}") if key in read else [f"{path}/{key}"]
            )
        ]
    if isinstance(wanted, list) and isinstance(read, list) and len(wanted) == len(read):
        pairs = enumerate(zip(wanted, read, strict=True))
        return [lost for at, (one, other) in pairs for lost in _missing(one, other, f"{path}/{at}")]
    return [] if wanted == read else [path]
