"""Recall on labelled samples; they lie beside the checkout and are no part of the project."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from redactors import KeyRing, Redactor, load_ruleset


@pytest.fixture(scope="module")
def labelled(checkout: Path) -> ModuleType:
    """The benchmark that measures recall, which is a script and not in the wheel."""
    spec = importlib.util.spec_from_file_location("labelled", checkout / "benchmarks/labelled.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["labelled"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(load_ruleset(), KeyRing("k1", {"k1": bytes(range(32))}))


@pytest.mark.parametrize(
    ("source", "least"),
    [("gitleaks", 0.97), ("kingfisher", 0.96), ("noseyparker", 0.92), ("detect-secrets", 1.0)],
)
def test_stated_secrets_are_gone_as_text_and_inside_json(
    redactor: Redactor, labelled: ModuleType, shared: Path, source: str, least: float
) -> None:
    path = shared / "samples/labelled" / f"{source}.jsonl.gz"
    score = labelled.score(redactor, source, labelled.read_rows(path))
    assert score.rows > 0
    assert score.recall >= least, dict(score.missed)


def test_personal_numbers_beside_their_name_are_judged_by_checksum(
    redactor: Redactor, labelled: ModuleType, shared: Path
) -> None:
    path = shared / "samples/labelled/datadog-sds.jsonl.gz"
    score = labelled.score(redactor, "datadog-sds", labelled.read_rows(path))
    assert score.recall >= 0.95, dict(score.missed)
    assert score.touched_negatives <= 0.05 * score.negatives


def test_the_report_shows_kinds_and_reasons_and_nothing_of_a_sample(
    redactor: Redactor,
    labelled: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"rule": "vendor.1", "text": "blink-otter", "secret": "blink-otter"}
    score = labelled.score(redactor, "made-up", [{**row, "positive": True, "scored": True}])
    assert score.missed == {"vendor.1": 1}
    labelled._print_json([score])
    labelled._print_table([score])
    printed = capsys.readouterr().out
    assert "otter" not in printed
    assert json.loads(printed[: printed.rindex("]") + 1])[0]["missed"][0]["kind"] == "vendor.1"


def test_every_missed_kind_has_a_reason(labelled: ModuleType) -> None:
    assert "prose" in labelled.reason_for("kingfisher.weak_password.1")
    assert labelled.reason_for("np.nobody.1") == labelled.OTHERWISE
