"""What `redactory doctor` finds without a broker: each failure is told with what to do."""

import os
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import IngestConfig
from pipeline.doctor import clock, here, lake
from pipeline.doctor.examine import examine
from pipeline.doctor.findings import Finding, as_json, attempt
from pipeline.doctor.topic import judge_partitions, judge_rights
from pipeline.errors import LakeError
from pipeline.lake.store import Store
from redactors import KeyRing

NOW_S = 1_800_000_000.0


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    KeyRing.generate().save(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def _config(**fields: Any) -> IngestConfig:
    given: dict[str, Any] = {"bootstrap": "", "topic": "runs", "lake": "", **fields}
    return IngestConfig(**given)


def _about(what: str, config: IngestConfig) -> list[Finding]:
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "keys": lambda: here.keys(config, time.time()),
        "rules": lambda: here.rules(config),
        "policy": lambda: here.policy(config),
        "lake": lambda: lake.lake(config, time.time),
    }
    return attempt(what, checks[what])


def test_where_all_is_well_nothing_is_advised_and_nothing_is_left_behind(
    keys: Path, tmp_path: Path
) -> None:
    place = tmp_path / "lake"
    Store.open(place, create=True)
    found = examine(_config(lake=str(place), keys=str(keys)), 1, time.time)
    assert [each.what for each in found] == [
        *("versions", "keys", "rules", "policy", "lake", "put-if-absent", "clock")
    ]
    assert {(each.level, each.advice) for each in found} == {("ok", "")}
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_a_line_says_level_what_was_seen_and_what_to_do() -> None:
    assert str(Finding("ok", "topic", "it is there")) == "ok    topic: it is there"
    assert str(Finding("fail", "lake", "it is full", "free some")) == (
        "fail  lake: it is full — free some"
    )
    assert as_json([Finding("warn", "a", "b", "c")]) == (
        '{"ok": true, "findings": [{"level": "warn", "what": "a", "seen": "b", "advice": "c"}]}'
    )


def test_an_error_nobody_foresaw_is_a_finding_without_its_words() -> None:
    def check() -> list[Finding]:
        raise ValueError("the payload")

    assert attempt("x", check) == [Finding("fail", "x", "the examination ended in ValueError")]


def test_no_key_file_is_told_and_none_is_made(tmp_path: Path) -> None:
    (found,) = _about("keys", _config(keys=str(tmp_path / "none.json")))
    assert (found.level, list(tmp_path.iterdir())) == ("warn", [])


def test_a_key_file_that_others_may_read_fails(keys: Path) -> None:
    keys.chmod(0o644)
    (found,) = _about("keys", _config(keys=str(keys)))
    assert found.level == "fail"
    assert "chmod 600" in f"{found}"


def test_a_key_file_in_the_lake_fails(keys: Path) -> None:
    (found,) = _about("keys", _config(keys=str(keys), lake=str(keys.parent)))
    assert (found.level, "lies in the lake" in found.seen) == ("fail", True)


def test_an_old_current_key_is_told_with_its_age(keys: Path) -> None:
    os.utime(keys, (NOW_S - 400 * 86_400, NOW_S - 400 * 86_400))
    (found,) = here.keys(_config(keys=str(keys)), NOW_S)
    assert found.level == "warn"
    assert f"current is {KeyRing.load(keys).current}, changed 400 days ago" in found.seen
    assert not any(key.hex() in str(found) for key in KeyRing.load(keys).keys.values())


def test_rules_that_do_not_load_fail_by_file_and_line(keys: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("name: mine\nversion: '1'\nruls: []\n")
    (found,) = _about("rules", _config(keys=str(keys), rules=str(rules)))
    assert (found.level, f"{rules}:3" in found.seen) == ("fail", True)


def test_rules_that_are_not_signed_as_they_must_be_fail(keys: Path) -> None:
    (found,) = _about("rules", _config(keys=str(keys), rules_public_key="key.pem"))
    assert (found.level, found.advice) == ("fail", "give --rules, or leave --rules-public-key out")


def test_a_policy_that_does_not_load_fails(keys: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("clases: {}\n")
    (found,) = _about("policy", _config(keys=str(keys), policy=str(tmp_path / "policy.yaml")))
    assert found.level == "fail"


def test_versions_that_were_not_asked_for_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["orjson<1", "no-such-package>=1; extra == 'pipeline'", "nor-this; extra == 'dev'"]
    monkeypatch.setattr(here, "requires", lambda name: wanted)
    missing, other = here.versions()
    assert (missing.level, missing.seen) == ("fail", "not installed: no-such-package")
    assert other.seen == f"orjson {metadata.version('orjson')} where <1 is asked for"


def test_a_lake_that_is_not_there_yet_is_told_and_not_made(keys: Path, tmp_path: Path) -> None:
    (found,) = _about("lake", _config(keys=str(keys), lake=str(tmp_path / "lake")))
    assert (found.level, (tmp_path / "lake").exists()) == ("warn", False)


def test_a_lake_that_others_may_enter_fails(keys: Path, tmp_path: Path) -> None:
    Store.open(tmp_path / "lake", create=True)
    (tmp_path / "lake").chmod(0o755)
    (found,) = _about("lake", _config(keys=str(keys), lake=str(tmp_path / "lake")))
    assert (found.level, "chmod 700" in found.advice) == ("fail", True)


def test_a_lake_below_a_file_fails(keys: Path, tmp_path: Path) -> None:
    (found,) = _about("lake", _config(keys=str(keys), lake=str(keys / "lake")))
    assert (found.level, found.seen) == ("fail", f"it is not there and cannot be made in {keys}")


class _Replacing(Store):
    """A store that takes a conditional write for any other, as some copies of S3 do."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        self.objects.put(key, data)
        return True


class _Lying(Store):
    """A store that keeps what stands there and tells the second writer that it has won, too."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        super().put_if_absent(key, data)
        return True


@pytest.mark.parametrize("kind", [_Replacing, _Lying])
def test_a_store_at_which_two_writers_win_fails_and_keeps_no_probe(
    tmp_path: Path, kind: type[Store]
) -> None:
    store = kind(Store.open(tmp_path, create=True).objects, "")
    found, _ = lake.probe(store, time.time)
    assert (found.level, found.what) == ("fail", "put-if-absent")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_probe_goes_though_the_store_fails_half_way(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)

    class Failing(_Replacing):
        def written_us(self, key: str) -> int:
            raise LakeError("it is away", code="store-failed")

    (found,) = attempt("lake", lambda: lake.probe(Failing(store.objects, ""), time.time))
    assert (found.level, found.seen) == ("fail", "it is away")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("skew_s", "level"), [(0, "ok"), (5, "ok"), (-30, "warn"), (30, "warn"), (-301, "fail")]
)
def test_a_clock_that_goes_otherwise_is_told(skew_s: float, level: str) -> None:
    found = clock.compare("theirs", NOW_S + skew_s, NOW_S)
    assert (found.level, bool(found.advice)) == (level, level != "ok")


def test_a_record_from_the_future_is_told_one_from_the_past_is_not() -> None:
    assert clock.newest_record(NOW_S + 60, NOW_S).level == "warn"
    assert clock.newest_record(NOW_S - 1e6, NOW_S).level == "ok"


@pytest.mark.parametrize(
    ("instance", "workers", "level"),
    [((0, 1), 4, "ok"), ((0, 1), 5, "warn"), ((3, 4), 1, "ok"), ((4, 5), 1, "fail")],
)
def test_each_worker_needs_a_partition(instance: tuple[int, int], workers: int, level: str) -> None:
    config = _config(instance=instance[0], instances=instance[1])
    assert judge_partitions(range(4), config, workers).level == level


def test_what_may_not_be_done_is_told_by_the_name_of_the_right() -> None:
    every = {"READ", "DELETE"}
    assert judge_rights(_config(delete_consumed=True), every, every) == []
    (unread,) = judge_rights(_config(), {"DELETE"}, every)
    assert (unread.level, unread.advice) == ("fail", "allow READ on topic runs")
    (kept,) = judge_rights(_config(delete_consumed=True), {"READ"}, every)
    assert (kept.level, kept.advice) == ("fail", "allow DELETE on topic runs")
    (unseen,) = judge_rights(_config(), every, ())
    assert (unseen.level, unseen.advice) == ("warn", "allow READ on group redactory-runs")
