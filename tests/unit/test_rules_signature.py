"""Signed rulesets: what `rules sign` signs `ingest` takes, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from signing_samples import write_keys
from typer.testing import CliRunner

from pipeline.cli.main import app, explain
from pipeline.config import IngestConfig
from pipeline.errors import UsageError
from pipeline.opening import check_start, open_rules
from redactors import RulesetError

RULES = """name: ours
version: "1"
rules:
  - {id: a, kind: secret, label: A, pattern: 'a_[a-z]{8}', reason: r, owner: o,
     matches: ['a_{{lower:8}}']}
"""


@pytest.fixture
def config(tmp_path: Path) -> IngestConfig:
    """Rules that are signed, and the key to check them with."""
    rules = tmp_path / "ours.yaml"
    rules.write_text(RULES)
    private, public = write_keys(tmp_path)
    signed = CliRunner().invoke(app, ["rules", "sign", str(rules), "--key", str(private)])
    assert signed.exit_code == 0
    (tmp_path / "ours.yaml.sig").write_text(signed.stdout)
    return IngestConfig(
        bootstrap="",
        topic="",
        lake=str(tmp_path / "lake"),
        rules=str(rules),
        rules_public_key=str(public),
        keys=str(tmp_path / "keys.json"),
    )


def test_signed_rules_are_taken_wherever_the_signature_lies(
    config: IngestConfig, tmp_path: Path
) -> None:
    assert open_rules(config).ruleset.name == "ours"
    moved = (tmp_path / "ours.yaml.sig").rename(tmp_path / "elsewhere")
    with pytest.raises(RulesetError, match=r"ours\.yaml\.sig: cannot be read"):
        open_rules(replace(config, keys=str(tmp_path / "others.json")))
    assert open_rules(replace(config, rules_signature=str(moved))).ruleset.name == "ours"


def test_a_comment_may_change_but_no_rule(config: IngestConfig, tmp_path: Path) -> None:
    rules = tmp_path / "ours.yaml"
    rules.write_text("# reviewed\n" + RULES)
    open_rules(config)
    rules.write_text(RULES.replace("{8}", "{9}").replace(":8}", ":9}"))
    with pytest.raises(RulesetError, match="is no signature of these rules") as refused:
        open_rules(replace(config, rules_signature=str(tmp_path / "ours.yaml.sig")))
    sentence, code = explain(refused.value)
    assert code == 2
    assert "\n" not in sentence


def test_rules_that_are_not_signed_are_not_run(config: IngestConfig, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(RULES.replace("matches: ['a_", "matches: ['b_"))
    with pytest.raises(RulesetError, match="is no signature"):
        open_rules(config)


@pytest.mark.parametrize("text", ["", "not base64!", "AAAA"])
def test_what_is_no_signature_is_refused(config: IngestConfig, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.sig").write_text(text)
    with pytest.raises(RulesetError, match="is no signature"):
        open_rules(replace(config, rules_signature=str(tmp_path / "bad.sig")))


def test_another_key_refuses_and_one_of_another_kind_is_told(
    config: IngestConfig, tmp_path: Path
) -> None:
    _, other = write_keys(tmp_path, "other")
    with pytest.raises(RulesetError, match="is no signature"):
        open_rules(replace(config, rules_public_key=str(other)))
    exchange = X25519PrivateKey.generate().public_key()
    other.write_bytes(exchange.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(RulesetError, match="no Ed25519 public key"):
        open_rules(replace(config, rules_public_key=str(other), keys=config.keys))
    result = CliRunner().invoke(
        app, ["rules", "sign", str(config.rules), "--key", str(config.rules)]
    )
    assert isinstance(result.exception, RulesetError)


def test_broken_rules_are_not_signed(config: IngestConfig, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(RULES.replace("matches: ['a_", "matches: ['b_"))
    words = ["rules", "sign", str(config.rules), "--key", str(tmp_path / "rules.pem")]
    assert isinstance(CliRunner().invoke(app, words).exception, RulesetError)


def test_options_that_check_nothing_are_wrong_usage(config: IngestConfig) -> None:
    with pytest.raises(UsageError, match="built-in"):
        check_start(replace(config, rules=None))
    with pytest.raises(UsageError, match="without the key"):
        check_start(replace(config, rules_public_key=None, rules_signature="x.sig"))
