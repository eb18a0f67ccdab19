"""Rows that are masked again, one by one."""

import numpy as np
from lake_samples import dead_rows, rows
from redaction_samples import KEYS
from rescrub_samples import NEW, OURS

from pipeline.review.rescrub.scrubbing import Scrubber
from redactors import Redactor, ruleset_digest

ALL = np.ones(2, np.bool_)


def scrubber() -> Scrubber:
    return Scrubber(Redactor(NEW, KEYS), {})


def test_names_of_headers_are_masked_in_dead_letters() -> None:
    letters = dead_rows([0, 1], header_names=[f"x-{OURS}", "x-trace"], key_id="k0")
    again, once = scrubber(), np.array([True, False])
    done = again.dead_letters(letters, once)
    assert done is not None and again.counts.rows == again.counts.changed == 1
    masked, left = sorted(done.to_pylist(), key=lambda row: int(row["kafka_offset"]))
    assert masked["header_names"][0].startswith("[ID:k1:")
    assert masked["header_names"][1] == "x-trace"
    assert (masked["ruleset"], masked["key_id"]) == (ruleset_digest(NEW), "k0")
    assert left == letters.to_pylist()[1]


def test_names_that_hold_a_secret_are_masked_and_declared() -> None:
    events = rows([0, 1], name=OURS, producer={"name": OURS, "version": "1"})
    again = scrubber()
    done = again.events(events, ALL)
    assert done is not None
    for row in done.to_pylist():
        assert row["name"].startswith("[ID:k1:") and row["producer"]["name"] == row["name"]
        paths = [(made["path"], made["rule"]) for made in row["redactions"]]
        assert paths == [("name", "identifier"), ("producer_name", "identifier")]
    assert again.events(done, ALL) is None


def test_rows_in_which_nothing_is_found_are_stamped_and_otherwise_the_same() -> None:
    events = rows([0, 1])
    again = scrubber()
    done = again.events(events, ALL)
    assert done is not None and (again.counts.rows, again.counts.changed) == (2, 0)
    meant = [row | {"ruleset": ruleset_digest(NEW)} for row in events.to_pylist()]
    assert done.to_pylist() == meant and done.schema == events.schema
