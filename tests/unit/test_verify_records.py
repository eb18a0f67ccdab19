"""`verify` looks into run records and into the state of the open runs."""

import time
from pathlib import Path

import pyarrow as pa
import pytest
from demo_lake import ingest_events

from pipeline.demo_agent.agent import demo_events
from pipeline.lake import layout
from pipeline.lake.documents import store_ruleset
from pipeline.lake.live import Lake
from pipeline.lake.parquet import from_parquet, to_parquet
from pipeline.lake.verify import Checks, verify
from pipeline.records.proof import check_states
from redactors import KeyRing, Ruleset, load_ruleset, ruleset_digest, ruleset_document

NOW_US = time.time_ns() // 1_000
ADDRESS = "@".join(("jane.roe", "example.com"))
CARD = " ".join(("4111", "1111", "1111", "1111"))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two runs, the second still open; keys lie beside the lake."""
    keys = KeyRing.generate()
    keys.save(tmp_path / "keys.json")
    events = list(demo_events(2, 1, NOW_US))[:-1]
    return ingest_events(tmp_path / "lake", events, NOW_US, slice_records=20, keys=keys)


def found(lake: Lake, *, leaks: bool = True) -> dict[str, str]:
    """The findings but for a file that we changed, with what they tell of."""
    location = Path(lake.store.location)
    checks = Checks(leaks=leaks, newer=False, keys=location.parent / "keys.json", processes=1)
    report = verify(str(location), checks, beside=check_states)
    return {
        each.code: f"{each.path.partition('/')[0]} {each.detail}"
        for each in report.findings
        if each.code != "file-changed"
    }


def test_nothing_is_found_in_the_records_and_the_state_of_a_whole_lake(lake: Lake) -> None:
    assert found(lake) == {}


@pytest.mark.parametrize(
    "place", ["snapshot", "reason"], ids=["in-a-document", "in-a-text-of-a-list"]
)
def test_what_a_rule_finds_in_a_record_is_told(lake: Lake, place: str) -> None:
    (file,) = lake.files["runs"]
    rows = from_parquet(lake.store.get(file.path))
    (row,) = rows.to_pylist()
    if place == "snapshot":
        row["task"]["snapshot"] = f'{{"note": "write to {ADDRESS}"}}'
    else:
        row["authority"]["decisions"][0]["reason"] = f"{ADDRESS} said so"
    path = Path(lake.store.location) / file.path
    path.write_bytes(to_parquet(pa.Table.from_pylist([row], schema=rows.schema)))
    assert found(lake) == {"rule-finds": "runs email"}
    assert found(lake, leaks=False) == {}


def test_what_a_run_said_under_older_rules_is_an_advisory(lake: Lake) -> None:
    (file,) = lake.files["runs"]
    rows = from_parquet(lake.store.get(file.path))
    (row,) = rows.to_pylist()
    row["task"]["snapshot"] = f'{{"note": "write to {ADDRESS}"}}'
    path = Path(lake.store.location) / file.path
    path.write_bytes(to_parquet(pa.Table.from_pylist([row], schema=rows.schema)))
    cards = [rule for rule in load_ruleset().rules if rule.id == "card-number"]
    older = Ruleset(name="older", version="1", rules=tuple(cards))
    store_ruleset(lake.store, ruleset_digest(older), ruleset_document(older))
    assert found(lake) == {"newer-rule-finds": "runs email"}
    row["task"]["snapshot"] = f'{{"note": "pay with {CARD}"}}'
    path.write_bytes(to_parquet(pa.Table.from_pylist([row], schema=rows.schema)))
    assert found(lake) == {"rule-finds": "runs card-number"}


def state_files(lake: Lake) -> list[Path]:
    folder = Path(lake.store.location) / layout.state_folder("demo", 0)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_state_that_is_gone_is_told(lake: Lake) -> None:
    state_files(lake)[-1].unlink()
    assert found(lake, leaks=False)["state-bad"].endswith(" state-missing")


def test_a_state_that_was_changed_is_told(lake: Lake) -> None:
    path = state_files(lake)[0]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert found(lake, leaks=False)["state-bad"].endswith(" state-damaged")
