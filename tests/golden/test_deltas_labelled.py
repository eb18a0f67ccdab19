"""Every stated secret of the labelled samples, cut in two, over events and over slices."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from delta_streams import contents, cut, masked, rows, stream

SOURCES = ("gitleaks", "kingfisher", "noseyparker", "detect-secrets")


def stated(shared: Path, source: str) -> Iterator[tuple[str, str]]:
    """(text, its secret) of every scored row."""
    with gzip.open(shared / "samples/labelled" / f"{source}.jsonl.gz", "rt") as file:
        for row in map(json.loads, file):
            if row["scored"] and row["positive"] and row["secret"] in row["text"]:
                yield row["text"], row["secret"]


def check(text: str, at: int) -> None:
    """No part of a secret that is found in the whole text is stored, wherever it is cut."""
    pieces = cut(text, at)
    whole = contents(rows(masked(stream([text]))))
    told = contents(rows(masked(stream(pieces))))
    assert told[0] == whole[0]
    assert told[1].startswith("[BLOB:len=")
    events: list[Any] = stream(pieces)
    over_slices = rows(masked(events[:2]), masked(events[2:], 2))
    assert all(part.startswith("[BLOB:") for part in contents(over_slices))


@pytest.mark.parametrize("source", SOURCES)
def test_a_secret_that_is_cut_somewhere_is_masked_as_a_whole_one(shared: Path, source: str) -> None:
    choice = random.Random(7)
    every = list(stated(shared, source))
    for text, secret in choice.sample(every, min(30, len(every))):
        start = text.index(secret)
        check(text, start + choice.randrange(1, max(2, len(secret))))


@pytest.mark.full
@pytest.mark.parametrize("source", SOURCES)
def test_a_secret_that_is_cut_anywhere_is_masked_as_a_whole_one(shared: Path, source: str) -> None:
    for text, secret in stated(shared, source):
        start = text.index(secret)
        for at in range(start + 1, start + len(secret)):
            check(text, at)
