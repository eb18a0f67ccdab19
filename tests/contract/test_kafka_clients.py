"""Client settings and errors against a broker that also speaks SASL and TLS."""

import datetime
import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline import broker
from pipeline.broker import local
from pipeline.config import IngestConfig
from pipeline.doctor.examine import examine
from pipeline.errors import BrokerError, UsageError
from pipeline.kafka import client_config, describe_topic, ensure_topic


@dataclass(frozen=True)
class SecureBroker:
    open: str
    sasl: str
    tls: str
    password: str
    certificate: Path
    keystore: Path


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]
) -> Iterator[SecureBroker]:
    """A local broker with two more listeners: a login over SASL, and TLS."""
    home = tmp_path_factory.mktemp("secure")
    certificate, keystore = _certificate(home)
    sasl, tls, password = free_port(), free_port(), secrets.token_hex(8)
    plain = local.server_settings

    def with_security(port: int, controller_port: int) -> dict[str, str]:
        settings = plain(port, controller_port)
        for name, number in (("SASL", sasl), ("TLS", tls)):
            settings["listeners"] += f",{name}://127.0.0.1:{number}"
            settings["advertised.listeners"] += f",{name}://127.0.0.1:{number}"
        settings["listener.security.protocol.map"] += ",SASL:SASL_PLAINTEXT,TLS:SSL"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return settings | {
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": (
                f'{module} required user_agent="{password}";'
            ),
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(keystore),
            # Whoever does not log in may do all; what a rule is about is for whom it names.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "server_settings", with_security)
        running = broker.start(home / "broker", free_port(), print)
    ensure_topic(running.bootstrap, "runs", partitions=3)
    yield SecureBroker(
        running.bootstrap,
        f"127.0.0.1:{sasl}",
        f"127.0.0.1:{tls}",
        password,
        certificate,
        keystore,
    )
    broker.stop(home / "broker")


@pytest.mark.parametrize(
    ("name", "line"),
    [("c.properties", "{}={}"), ("c.yaml", '"{}": "{}"'), ("c.conf", "  {} = {}  ")],
)
def test_a_login_from_a_settings_file_is_accepted(
    secure: SecureBroker, tmp_path: Path, name: str, line: str
) -> None:
    lines = [line.format(*setting) for setting in _login(secure.password).items()]
    (tmp_path / name).write_text("\n".join(["# the agents' login", *lines, ""]))
    assert describe_topic(secure.sasl, "runs", tmp_path / name).partitions == (0, 1, 2)


def test_tls_with_an_authority_of_ones_own_is_accepted(
    secure: SecureBroker, tmp_path: Path
) -> None:
    file = _properties(
        tmp_path, {"security.protocol": "SSL", "ssl.ca.location": str(secure.certificate)}
    )
    assert describe_topic(secure.tls, "runs", file).partitions == (0, 1, 2)


def test_a_wrong_password_is_told_and_not_shown(secure: SecureBroker, tmp_path: Path) -> None:
    wrong = secrets.token_hex(8)
    with pytest.raises(BrokerError) as refused:
        describe_topic(secure.sasl, "runs", _properties(tmp_path, _login(wrong)))
    assert refused.value.code == "login-refused"
    assert wrong not in f"{refused.value}{refused.value.hint}"


def test_a_certificate_that_nobody_vouches_for_is_refused(
    secure: SecureBroker, tmp_path: Path
) -> None:
    with pytest.raises(BrokerError) as refused:
        describe_topic(secure.tls, "runs", _properties(tmp_path, {"security.protocol": "SSL"}))
    assert refused.value.code == "tls-failed"


def test_a_missing_topic_is_told_by_name(bootstrap: str) -> None:
    with pytest.raises(BrokerError, match="the topic nowhere does not exist") as missing:
        describe_topic(bootstrap, "nowhere")
    assert missing.value.code == "topic-missing"


def test_a_topic_made_again_has_another_identity_but_the_same_name_is_made_once(
    bootstrap: str,
) -> None:
    assert ensure_topic(bootstrap, "made-once", partitions=2) is True
    first = describe_topic(bootstrap, "made-once")
    assert ensure_topic(bootstrap, "made-once", partitions=5) is False
    assert describe_topic(bootstrap, "made-once") == first
    assert first.partitions == (0, 1)


def test_a_broker_that_is_away_is_told_without_a_line_on_stderr(
    free_port: Callable[[], int], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BrokerError) as away:
        describe_topic(f"127.0.0.1:{free_port()}", "runs", timeout_s=1.0)
    assert away.value.code == "broker-away"
    assert capfd.readouterr().err == ""


def test_the_clients_own_log_can_be_had_by_asking(
    free_port: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "pipeline.kafka"), pytest.raises(BrokerError):
        describe_topic(f"127.0.0.1:{free_port()}", "runs", timeout_s=1.0)
    assert "Connection refused" in caplog.text


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "c.properties",
            "sasl.jaas.config=VALUE",
            "does not accept the setting `sasl.jaas.config`",
        ),
        ("c.properties", "security.protocol=VALUE", "does not accept the setting `security.proto"),
        ("c.properties", "linger.ms=VALUE", "does not accept the setting `linger.ms`"),
        ("c.properties", "security.protocol=SSL\nssl.ca.location=VALUE", "`ssl.ca.location`"),
        ("c.properties", "# fine\nVALUE", "no `name=value` in line 2"),
        ("c.properties", "no.such.thing=VALUE", "does not know the setting `no.such.thing`"),
        ("c.yaml", "- VALUE", "is not a mapping"),
        ("c.yaml", "sasl: {password: VALUE}", "gives `sasl` no plain value"),
        ("c.json", '{"VALUE', "is not valid YAML or JSON"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_without_its_value(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    value = f"v{secrets.token_hex(8)}"
    (tmp_path / name).write_text(text.replace("VALUE", value))
    with pytest.raises(UsageError, match=said) as refused:
        client_config("127.0.0.1:1", tmp_path / name)
    assert value not in f"{refused.value}{refused.value.hint}"


def test_a_settings_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read \(FileNotFoundError\)"):
        client_config("127.0.0.1:1", tmp_path / "none.properties")


def test_the_command_lines_bootstrap_wins_over_the_files(tmp_path: Path) -> None:
    file = _properties(tmp_path, {"bootstrap.servers": "127.0.0.1:1", "linger.ms": "7"})
    config = client_config("127.0.0.1:2", file, acks="all")
    assert config["bootstrap.servers"] == "127.0.0.1:2"
    assert (config["linger.ms"], config["acks"]) == ("7", "all")


def test_the_example_files_hold_settings_that_the_client_knows(
    secure: SecureBroker, checkout: Path, tmp_path: Path
) -> None:
    examples = sorted((checkout / "deploy" / "kafka").glob("*.properties"))
    assert len(examples) == 3
    for example in examples:
        text = re.sub(r"/path/to/\w+\.\w+", str(secure.keystore), example.read_text())
        (tmp_path / example.name).write_text(text)
        assert client_config("127.0.0.1:1", tmp_path / example.name)["security.protocol"]


@pytest.mark.parametrize(
    ("allowed", "topic", "told"),
    [
        ((), "topic", [("topic", "fail", "check the security settings")]),
        (
            (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS),
            "seen",
            [
                ("rights", "fail", "allow READ on topic seen"),
                ("rights", "warn", "allow READ on group redactory-seen"),
            ],
        ),
    ],
)
def test_the_doctor_tells_what_this_user_may_not_do(
    secure: SecureBroker,
    tmp_path: Path,
    allowed: tuple[AclOperation, ...],
    topic: str,
    told: list[tuple[str, str, str]],
) -> None:
    ensure_topic(secure.open, topic, settings={"retention.ms": "1000", "segment.ms": "1000"})
    _allow(secure.open, ResourceType.TOPIC, topic, allowed)
    _allow(secure.open, ResourceType.GROUP, f"redactory-{topic}", ())
    file = _properties(tmp_path, _login(secure.password))
    found = examine(IngestConfig(secure.sasl, topic, "", client_config=str(file)), 1, time.time)
    bad = [each for each in found if each.what != "keys" and each.level != "ok"]
    assert [(each.what, each.level) for each in bad] == [each[:2] for each in told]
    assert all(each.advice.startswith(said[2]) for each, said in zip(bad, told, strict=True))
    assert not any(secure.password in str(each) for each in found)


def _allow(
    bootstrap: str, kind: ResourceType, name: str, operations: tuple[AclOperation, ...]
) -> None:
    """Lets the agents' user do just that: another one may do all, so the resource is closed."""
    grants = [("User:agent", each) for each in operations] + [("User:other", AclOperation.ALL)]
    rules = [
        AclBinding(
            *(kind, name, ResourcePatternType.LITERAL, user, "*", each, AclPermissionType.ALLOW)
        )
        for user, each in grants
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for asked in admin.create_acls(rules).values():
        asked.result()


def _login(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "agent",
        "sasl.password": password,
    }


def _properties(folder: Path, settings: dict[str, str]) -> Path:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for the loopback, and a keystore with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    (folder / "ca.pem").write_bytes(certificate)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "keystore.pem").write_bytes(private + certificate)
    return folder / "ca.pem", folder / "keystore.pem"
