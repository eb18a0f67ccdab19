"""Files to emit: which of them, in what order, and what could not be sent."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.emitter.files import emit_files, find_inputs
from pipeline.errors import InputError, UsageError
from schemas import EncodeError, RunEvent, encode, encode_json

NOW_US = 1_772_366_400_000_000
EVENT = RunEvent(event_id="e", run_id="r", sequence=0, occurred_at=0, kind="message", body="{}")
LINE = encode_json(EVENT) + b"\n"
TURN = b'{"type":"user","sessionId":"s","message":{}}\n'


class Sent(list[RunEvent]):
    """Takes what the wire takes."""

    def emit(self, event: RunEvent, /) -> int:
        value = encode(event)
        self.append(event)
        return len(value)


class Choosy(Sent):
    """Does not take the second event."""

    def emit(self, event: RunEvent, /) -> int:
        if event.sequence == 1:
            raise EncodeError("too-large")
        return super().emit(event)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.jsonl").write_bytes(LINE)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINE + LINE))
    (tmp_path / "LICENSE").write_text("words")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "session.jsonl").write_bytes(TURN)
    return tmp_path


def test_a_folder_gives_the_files_of_known_formats_in_order(folder: Path) -> None:
    inputs, others = find_inputs([folder])
    assert [(file.path.name, file.format.name) for file in inputs] == [
        ("a.jsonl.gz", "run-event"),
        ("b.jsonl", "run-event"),
        ("session.jsonl", "claude-code"),
    ]
    assert [path.name for path in others] == ["LICENSE"]


def test_a_format_narrows_a_folder_down(folder: Path) -> None:
    inputs, others = find_inputs([folder], "claude-code")
    assert [file.path.name for file in inputs] == ["session.jsonl"]
    assert len(others) == 3


def test_a_pattern_is_taken_like_a_folder(folder: Path) -> None:
    inputs, _ = find_inputs([folder / "*.jsonl*"])
    assert [file.path.name for file in inputs] == ["a.jsonl.gz", "b.jsonl"]


def test_a_named_file_is_read_in_the_format_asked_for(folder: Path) -> None:
    (file,), _ = find_inputs([folder / "LICENSE"], "tau-bench")
    assert file.format.name == "tau-bench"


def test_paths_that_cannot_be_emitted_are_named(folder: Path) -> None:
    (folder / "nothing").mkdir()
    for path in ("LICENSE", "missing", "missing*", "nothing"):
        with pytest.raises(InputError, match=path.rstrip("*")):
            find_inputs([folder / path])
    with pytest.raises(UsageError, match="csv"):
        find_inputs([folder], "csv")
    with pytest.raises(InputError, match="no file of a known format"):
        find_inputs([folder / "L*"])


def test_files_are_emitted_and_counted(folder: Path) -> None:
    inputs, _ = find_inputs([folder])
    sent, read_bytes = Sent(), [0]
    done = emit_files(inputs, sent, NOW_US, read_bytes.append)
    assert (done.files, done.runs, done.events, done.refused) == (3, 2, 11, [])
    assert done.size_bytes == sum(len(encode(event)) for event in sent)
    assert [event.run_id for event in sent] == ["r", "r", "r", *["s"] * 8]
    assert sum(read_bytes) == sum(file.path.stat().st_size for file in inputs)


def test_an_event_that_cannot_be_sent_is_named_and_the_others_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    events = [replace(EVENT, sequence=number) for number in range(3)]
    path.write_bytes(b"\n".join(encode_json(event) for event in events))
    sent = Choosy()
    done = emit_files(find_inputs([path])[0], sent, NOW_US)
    assert [event.sequence for event in sent] == [0, 2]
    assert done.events == 2
    assert len(done.refused) == 1 and "runs.jsonl: event 2: " in done.refused[0]
