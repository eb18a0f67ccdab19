"""Dead letters have one closed list of reasons, and too many of them stop an ingest."""

import ast
import json
from pathlib import Path

import pytest
from running import redactory, succeed

from pipeline.deadletters import CODES, MIN_MESSAGES, WINDOW, DeadLetterGuard, listing_sql
from pipeline.errors import TooManyDeadLetters, UsageError
from redactors.errors import UNEXAMINABLE_CODES, Unexaminable


def test_every_reason_that_the_engine_gives_is_in_the_list(checkout: Path) -> None:
    given = {
        node.args[0].value
        for path in (checkout / "redactors").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "Unexaminable"
        and isinstance(node.args[0], ast.Constant)
    }
    assert given == set(UNEXAMINABLE_CODES)
    assert given <= set(CODES)


def test_a_reason_that_is_not_in_the_list_cannot_be_given() -> None:
    with pytest.raises(AssertionError):
        Unexaminable("because")


def test_the_command_says_what_each_code_means() -> None:
    assert json.loads(succeed("deadletters", "codes", "--json")) == CODES


def test_the_page_of_reasons_has_every_code_with_its_meaning(checkout: Path) -> None:
    page = (checkout / "docs" / "dead-letters.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.count(" | ") == 2]
    told = {row[0].removeprefix("| "): row[2].removesuffix(" |") for row in rows}
    assert {code: told.get(code) for code in CODES} == CODES
    assert told.keys() - CODES.keys() == {"code", "---"}


def test_a_code_that_there_is_not_is_refused_before_the_lake_is_opened(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        listing_sql("x' OR 1 = 1 --", 5)
    (tmp_path / "lake").mkdir(mode=0o700)
    done = redactory("deadletters", "list", "--lake", tmp_path / "lake", "--code", "nonsense")
    assert done.returncode == 2


def test_a_few_messages_say_nothing_about_a_topic() -> None:
    DeadLetterGuard(0.5).check(MIN_MESSAGES - 1, MIN_MESSAGES - 1)


def test_a_slice_with_too_many_dead_letters_is_not_handed_on() -> None:
    guard = DeadLetterGuard(0.5)
    guard.check(1000, 500)
    with pytest.raises(TooManyDeadLetters) as caught:
        guard.check(1000, 501)
    assert caught.value.is_final


def test_the_rate_is_that_of_the_last_messages() -> None:
    guard = DeadLetterGuard(0.5)
    guard.check(100 * WINDOW, 0)
    for _ in range(5):
        guard.check(100, 50)
    guard.check(WINDOW, 0)
    with pytest.raises(TooManyDeadLetters):
        guard.check(WINDOW, WINDOW)


def test_whoever_allows_all_gets_all() -> None:
    guard = DeadLetterGuard(1.0)
    for _ in range(5):
        guard.check(WINDOW, WINDOW)
