"""What `deploy/` holds fits its schemas, the command line, and the rules of a careful operator.

No container, cluster or cloud is at hand: nothing of it is run but what says so.
"""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from apache_beam.options.pipeline_options import PipelineOptions
from command_lines import parse

from pipeline.config import parse_instance
from pipeline.kafka import client_config
from pipeline.retention.policy import load_policy
from pipeline.retention.topic import find_drift
from redactors.keys import KeyRing

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted([*DEPLOY.glob("kubernetes/*.yaml"), *DEPLOY.glob("flink/*.yaml")])
OURS = "redactory:0.1.0"
FLINK = {"image", "flinkVersion", "serviceAccount", "flinkConfiguration", "jobManager"}


def documents() -> Iterator[dict[str, Any]]:
    """Every object of every manifest."""
    for path in MANIFESTS:
        yield from yaml.safe_load_all(path.read_text())


def pods() -> Iterator[dict[str, Any]]:
    """The specification of every pod that a manifest asks for."""
    for document in documents():
        spec = document.get("spec", {})
        match document["kind"]:
            case "StatefulSet" | "Deployment":
                yield spec["template"]["spec"]
            case "CronJob":
                yield spec["jobTemplate"]["spec"]["template"]["spec"]
            case "FlinkDeployment":
                yield spec["taskManager"]["podTemplate"]["spec"]


def containers() -> Iterator[dict[str, Any]]:
    """Every container of every pod, those that prepare it too; Flink's own has no image here."""
    for pod in pods():
        for each in [*pod.get("initContainers", ()), *pod["containers"]]:
            yield {"image": "", **each}


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def commands() -> Iterator[list[str]]:
    """The words after `redactory` of each of our containers and scripts."""
    for container in containers():
        if container["image"] == OURS and "command" not in container:
            yield container["args"]
    for service in compose()["services"].values():
        if service.get("image") == OURS:
            yield service["command"]
    yield dataflow()


def dataflow() -> list[str]:
    script = (DEPLOY / "dataflow/launch").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^exec redactory (.*)$", script, re.MULTILINE)
    return shlex.split(line)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_fit_the_schemas_of_kubernetes(path: Path) -> None:
    version = kubernetes_validate.latest_version()
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "FlinkDeployment":
            # Its own schema is in no package: the pod is checked in full, of the rest the names.
            assert set(document["spec"]) == {*FLINK, "taskManager"}
            document = document["spec"]["taskManager"]["podTemplate"]
        kubernetes_validate.validate(document, version, strict=True)


def test_the_compose_file_fits_its_schema() -> None:
    schema = files("check_jsonschema.builtin_schemas") / "vendor" / "compose-spec.json"
    jsonschema.validate(compose(), json.loads(schema.read_text()))


def test_every_redactory_command_is_one() -> None:
    understood = [parse(words) for words in commands()]
    assert len(understood) >= 6


def test_our_containers_may_do_nothing_that_they_need_not() -> None:
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
    ours = [each for each in containers() if each["image"] == OURS]
    assert len(ours) >= 6
    for each in ours:
        assert each["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    for pod in pods():
        if any(each.get("image") == OURS for each in pod["containers"]):
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for name, service in compose()["services"].items():
        if service.get("image") == OURS:
            assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


def test_secrets_are_named_and_never_written() -> None:
    assert "Secret" not in {document["kind"] for document in documents()}
    for container in containers():
        for variable in container.get("env", ()):
            assert not re.search("KEY|SECRET|TOKEN|PASSWORD", variable["name"])


def test_every_image_is_pinned() -> None:
    images = {each["image"] for each in containers()} - {""}
    images |= {each["spec"]["image"] for each in documents() if each["kind"] == "FlinkDeployment"}
    images |= {service["image"] for service in compose()["services"].values()}
    for file in DEPLOY.glob("*/Containerfile"):
        text = file.read_text()
        named = re.findall(r"^(?:FROM |ARG PYTHON=)([^\s$]+)$", text, re.MULTILINE)
        images |= {image for image in named if image != "scratch"}
    for image in images:
        assert re.search(r"@sha256:[0-9a-f]{64}$|:\d+\.\d+(\.\d+)?(-|$)", image), image
    versions = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert f"redactory:{versions['version']}" in images
    (beam,) = [
        each.split("==")[1]
        for each in versions["optional-dependencies"]["pipeline"]
        if each.startswith("apache-beam==")
    ]
    assert {image for image in images if "beam" in image} == {
        f"docker.io/apache/beam_flink1.19_job_server:{beam}",
        f"docker.io/apache/beam_python3.11_sdk:{beam}",
    }


def test_instances_are_counted_from_the_ordinal() -> None:
    (stateful,) = [each for each in documents() if each["kind"] == "StatefulSet"]
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    replicas = stateful["spec"]["replicas"]
    instance = parse(container["args"])["instance"]
    shares = {parse_instance(instance.replace("$(ORDINAL)", str(i))) for i in range(replicas)}
    assert shares == {(i, replicas) for i in range(replicas)}
    named = {variable["name"] for variable in container["env"]}
    assert named >= set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))


def test_a_key_ring_from_a_secret_is_taken(tmp_path: Path) -> None:
    """The kubelet lets a pod's group read its secrets; a key ring is refused then."""
    secret, ours = tmp_path / "secret.json", tmp_path / "keys.json"
    ring = KeyRing.generate()
    ring.save(secret)
    secret.chmod(0o440)
    commands = {tuple(each["command"]) for each in containers() if each["name"] == "keys"}
    (command,) = commands
    *program, _, _ = command
    subprocess.run([sys.executable, *program[1:], secret, ours], check=True)
    assert KeyRing.load(ours) == ring


def test_the_laptops_topic_keeps_nothing_longer_than_the_rows() -> None:
    words = compose()["services"]["topic"]["command"]
    given = [word.removeprefix("--config=") for word in words if word.startswith("--config=")]
    settings = dict(word.split("=", 1) for word in given)
    assert find_drift(settings, load_policy(None)) == ()


@pytest.mark.parametrize("name", ["ingest", "reader"])
def test_a_bucket_policy_allows_what_it_names_in_the_lake(name: str) -> None:
    policy = json.loads((DEPLOY / f"s3/{name}-policy.json").read_text())
    lake = "arn:aws:s3:::lake/agent-runs/"
    written = set()
    for statement in policy["Statement"]:
        actions = statement["Action"]
        actions = {actions} if isinstance(actions, str) else set(actions)
        assert statement["Effect"] == "Allow" and not any("*" in action for action in actions)
        if actions == {"s3:ListBucket"}:
            assert statement["Condition"] == {"StringLike": {"s3:prefix": "agent-runs/*"}}
            continue
        assert statement["Resource"].startswith(lake)
        if actions & {"s3:PutObject", "s3:DeleteObject"}:
            written.add(statement["Resource"].removeprefix(lake))
    assert written == {"ingest": {"*"}, "reader": {"_audit/*"}}[name]


def test_nobody_replaces_an_entry_of_the_log_or_keeps_versions() -> None:
    policy = json.loads((DEPLOY / "s3/bucket-policy.json").read_text())
    denied = {each["Sid"]: each for each in policy["Statement"] if each["Effect"] == "Deny"}
    assert denied.keys() == {"OverTlsOnly", "NeverVersioned", "NothingIsReplacedInTheLog"}
    assert all(each["Principal"] == "*" for each in denied.values())


def test_the_image_gets_what_is_pinned(checkout: Path) -> None:
    image = _pinned(DEPLOY / "container/requirements.txt")
    assert image.items() <= _pinned(checkout / "constraints.txt").items()
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["pipeline"], *extras["kms"], *extras["registry"]]
    assert {re.split(r"[^a-z0-9-]", name)[0] for name in wanted} <= image.keys()
    assert not {"pytest", "pyspark", "mkdocs"} & image.keys()


def test_what_it_is_made_of_can_be_listed(checkout: Path) -> None:
    makefile = (checkout / "Makefile").read_text()
    (words,) = re.findall(r"cyclonedx-py (requirements .*?) > ", makefile.replace("\\\n", ""))
    command = [sys.executable, "-m", "cyclonedx_py", *shlex.split(words), "--no-validate"]
    done = subprocess.run(command, capture_output=True, cwd=checkout, check=True)
    bill = json.loads(done.stdout)
    assert bill["bomFormat"] == "CycloneDX"
    listed = {each["name"]: each for each in bill["components"]}
    assert listed.keys() == _pinned(DEPLOY / "container/requirements.txt").keys()
    assert bill["metadata"]["component"]["name"] == "redactory"


def test_beam_understands_what_its_runners_are_told() -> None:
    told = [words[words.index("--") + 1 :] for words in commands() if "--" in words]
    assert len(told) == 2
    for flags in told:
        understood = PipelineOptions(flags).get_all_options(drop_default=True)
        assert {flag.lstrip("-").split("=")[0] for flag in flags} - {"no_use_public_ips"} <= (
            understood.keys()
        )


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("kafka/*.properties")), ids=lambda p: p.name)
def test_the_client_takes_the_example_settings(path: Path, tmp_path: Path) -> None:
    key, certificate = tmp_path / "client.key", tmp_path / "client.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=any"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    (tmp_path / "ca.pem").write_bytes(certificate.read_bytes())
    settings = tmp_path / "client.properties"
    settings.write_text(path.read_text().replace("/path/to", str(tmp_path)))
    assert client_config("broker:9093", settings)["security.protocol"] in ("SSL", "SASL_SSL")


def _pinned(path: Path) -> dict[str, str]:
    pin = r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==([^ ;]+)"
    return dict(re.findall(pin, path.read_text(), re.MULTILINE))
