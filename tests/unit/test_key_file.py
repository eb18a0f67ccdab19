"""The key file as other processes see it."""

from pathlib import Path

import pytest

from redactors import KeyRing


def test_a_key_file_appears_only_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, seen = tmp_path / "keys.json", []
    monkeypatch.setattr("redactors.keys.os.fsync", lambda descriptor: seen.append(file.exists()))
    ring = KeyRing.generate()
    ring.save(file)
    assert seen == [False]
    assert KeyRing.load(file).current == ring.current
    assert list(tmp_path.iterdir()) == [file]
