"""What is kept between starts is what would be worked out anew, or is not used."""

from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from redactors import cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _name: tmp_path / "cache")
    return tmp_path / "cache"


def kept(source: list[str], made: list[str]) -> list[str]:
    """`source` in capitals; notes in `made` what was worked out."""

    def derive() -> list[str]:
        made.extend(source)
        return [each.upper() for each in source]

    return cache.derived("test", source, list[str], derive)


def test_what_was_worked_out_is_read_the_next_time() -> None:
    made: list[str] = []
    assert kept(["a"], made) == kept(["a"], made) == ["A"]
    assert kept(["b"], made) == ["B"]
    assert made == ["a", "b"]


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: data.replace(b"A", b"Z")])
def test_what_a_disk_changed_is_worked_out_again(
    folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    made: list[str] = []
    kept(["a"], made)
    (file,) = (folder / "test").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert kept(["a"], made) == ["A"]
    assert made == ["a", "a"]
    assert kept(["a"], made) == ["A"]
    assert made == ["a", "a"]


def test_altered_code_works_it_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    kept(["a"], made)
    monkeypatch.setattr(cache, "code_digest", lambda: b"other")
    assert kept(["a"], made) == ["A"]
    assert made == ["a", "a"]


def test_a_cache_that_cannot_be_written_only_costs_time(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    made: list[str] = []
    assert kept(["a"], made) == kept(["a"], made) == ["A"]
    assert made == ["a", "a"]


def test_what_is_kept_is_for_its_owner_alone(folder: Path) -> None:
    kept(["a"], [])
    (file,) = (folder / "test").iterdir()
    assert (file.stat().st_mode & 0o077, file.parent.stat().st_mode & 0o077) == (0, 0)
