"""What `deploy/kafka/acls` allows is enough for each user, and no more: on a broker that asks."""

import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from running import redactory

from pipeline import broker
from pipeline.broker import local
from pipeline.broker.settings import server_settings
from pipeline.demo_agent import demo_events
from pipeline.kafka import ensure_topic
from schemas import encode_json

USERS = ("redactory-emit", "redactory-ingest", "redactory-operator")
TOPIC = "agent-runs"

# Stands in for kafka-acls.sh, whose jar is not among the broker's; takes the same words.
KAFKA_ACLS = """\
import argparse, re, sys
from confluent_kafka.admin import (
    AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType
)

words = argparse.ArgumentParser()
for flag in ("--add", "--force"):
    words.add_argument(flag, action="store_true", required=True)
for name in ("--bootstrap-server", "--command-config", "--allow-principal"):
    words.add_argument(name, required=True)
words.add_argument("--operation", action="append", required=True)
words.add_argument("--resource-pattern-type", default="literal")
kind = words.add_mutually_exclusive_group(required=True)
kind.add_argument("--topic")
kind.add_argument("--group")
asked = words.parse_args()
bindings = [
    AclBinding(
        ResourceType.TOPIC if asked.topic else ResourceType.GROUP,
        asked.topic or asked.group,
        ResourcePatternType[asked.resource_pattern_type.upper()],
        asked.allow_principal,
        "*",
        AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
        AclPermissionType.ALLOW,
    )
    for operation in asked.operation
]
admin = AdminClient({"bootstrap.servers": asked.bootstrap_server})
for done in admin.create_acls(bindings).values():
    done.result(30)
"""


@dataclass(frozen=True)
class Guarded:
    """A broker that knows its users: where it answers them, and each one's client settings."""

    bootstrap: str
    clients: dict[str, Path]


@pytest.fixture(scope="module")
def guarded(
    checkout: Path, free_port: Callable[[], int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    passwords = {user: secrets.token_hex(8) for user in USERS}
    for_users, for_us = free_port(), free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            local,
            "server_settings",
            lambda port, controller: _with_users(port, controller, for_users, passwords),
        )
        running = broker.start(folder / "broker", for_us, print)
    try:
        ensure_topic(running.bootstrap, TOPIC, partitions=2)
        tool = folder / "kafka_acls.py"
        tool.write_text(KAFKA_ACLS)
        subprocess.run(
            [checkout / "deploy/kafka/acls", running.bootstrap, TOPIC, "unused.properties"],
            check=True,
            env={"PATH": "/usr/bin:/bin", "KAFKA_ACLS": f"{sys.executable} {tool}"},
        )
        clients = {user: _client(folder, user, word) for user, word in passwords.items()}
        yield Guarded(f"127.0.0.1:{for_users}", clients)
    finally:
        broker.stop(folder / "broker")


def test_each_user_may_do_its_work_and_nothing_else(guarded: Guarded, tmp_path: Path) -> None:
    runs, lake, keys = tmp_path / "runs.jsonl", tmp_path / "lake", tmp_path / "keys.json"
    events = list(demo_events(2, seed=1, now_us=time.time_ns() // 1000))
    runs.write_bytes(b"".join(encode_json(event) + b"\n" for event in events))

    def asks(user: str, *words: str | Path) -> int:
        done = redactory(
            *words, "--bootstrap", guarded.bootstrap, "--config", guarded.clients[user]
        )
        assert done.returncode in (0, 1) or "does not let this user" in done.stderr, done.stderr
        return done.returncode

    emit = ("emit", runs, "--topic", TOPIC)
    ingest = ("ingest", "--topic", TOPIC, "--lake", lake, "--keys", keys, "--until-caught-up")
    doctor = ("doctor", "--topic", TOPIC, "--keys", keys)
    repair = ("retention", "topic", TOPIC, "--repair")
    assert asks("redactory-emit", *emit) == 0
    assert asks("redactory-emit", *doctor) == 1
    assert asks("redactory-ingest", *emit) == 3
    assert asks("redactory-ingest", *repair) == 3
    assert asks("redactory-ingest", *ingest) == 0
    assert asks("redactory-operator", *repair) == 0
    assert asks("redactory-ingest", *doctor) == 0


def _with_users(
    port: int, controller: int, for_users: int, passwords: dict[str, str]
) -> dict[str, str]:
    """The local broker's settings with a second listener, at which users log in."""
    settings = server_settings(port, controller)
    users = " ".join(f'user_{user}="{word}"' for user, word in passwords.items())
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    listener = f",USERS://127.0.0.1:{for_users}"
    return settings | {
        "listeners": settings["listeners"] + listener,
        "advertised.listeners": settings["advertised.listeners"] + listener,
        "listener.security.protocol.map": settings["listener.security.protocol.map"]
        + ",USERS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f"{login} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


def _client(folder: Path, user: str, word: str) -> Path:
    settings = folder / f"{user}.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.username={user}\nsasl.password={word}\n"
    )
    return settings
