"""Rules that change while an ingest runs: good ones are taken up, of bad ones it is said why."""

from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from signing_samples import write_keys

from pipeline.config import IngestConfig
from pipeline.lake.documents import load_ruleset_document
from pipeline.lake.store import Store
from pipeline.opening import holding_rules, open_rules
from pipeline.ruleswatch import RulesWatch, state_of_rules
from redactors import RulesetError, load_ruleset, ruleset_digest, ruleset_document
from redactors.signatures import sign, signature_path

DAY = date(2026, 12, 1)


def text(count: int) -> str:
    return f"""name: ours
version: "1"
rules:
  - {{id: a, kind: secret, label: A, pattern: 'a_[a-z]{{{count}}}', reason: r, owner: o,
     matches: ['a_{{{{lower:{count}}}}}']}}
"""


class Watched:
    """A watch over a signed file, its looks taken by hand, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.rules, self.day = folder / "ours.yaml", DAY
        self.private, public = write_keys(folder)
        self.write(text(8))
        self.lake = Store.open(folder / "lake", create=True)
        config = IngestConfig(
            "",
            "",
            str(folder / "lake"),
            rules=str(self.rules),
            rules_public_key=str(public),
            keys=str(folder / "keys.json"),
        )
        self.config = holding_rules(config)
        self.taken: list[str] = []
        self.refused: list[str] = []
        self.watch = RulesWatch(
            self.config,
            self.taken.append,
            self.refused.append,
            state_of_rules(config, DAY),
            lambda: self.day,
        )

    def write(self, rules: str) -> None:
        """Changes the rules, and signs them if that can be done."""
        self.rules.write_text(rules)
        documents: list[bytes] = []
        with suppress(RulesetError):
            load_ruleset(self.rules, accept=documents.append)
        if documents:
            signature_path(self.rules).write_text(sign(documents[0], self.private))

    def look(self, times: int = 2) -> None:
        for _ in range(times):
            self.watch.look()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_what_does_not_change_is_left_alone(watched: Watched) -> None:
    watched.look(3)
    assert (watched.taken, watched.refused) == ([], [])


def test_changed_rules_are_taken_up_once_and_kept_in_the_lake(watched: Watched) -> None:
    watched.write(text(9))
    watched.look(4)
    ruleset = load_ruleset(watched.rules)
    assert watched.taken == [ruleset_digest(ruleset)]
    assert load_ruleset_document(watched.lake, watched.taken[0]) == ruleset_document(ruleset)
    worker = open_rules(replace(watched.config, ruleset=watched.taken[0]))
    assert worker.redactor.digest == watched.taken[0]


def test_a_file_that_still_changes_is_not_judged(watched: Watched) -> None:
    for count in (9, 10, 11):
        watched.write(text(count)[:-30])  # as far as it is written
        watched.look(1)
    watched.write(text(12))
    watched.look(2)
    assert (len(watched.taken), watched.refused) == (1, [])


def test_bad_rules_are_refused_once_with_their_place_and_mended_ones_taken_up(
    watched: Watched,
) -> None:
    watched.write(text(9).replace("matches", "marches"))
    watched.look(4)
    (why,) = watched.refused
    assert why.startswith(f"{watched.rules}:")
    assert watched.taken == []
    watched.write(text(9))
    watched.look()
    assert len(watched.taken) == 1


def test_rules_that_are_not_signed_yet_wait_for_their_signature(watched: Watched) -> None:
    watched.rules.write_text(text(9))
    watched.look(3)
    assert watched.taken == []
    assert "is no signature of these rules" in watched.refused[0]
    watched.write(text(9))
    watched.look(3)
    assert (len(watched.taken), len(watched.refused)) == (1, 1)


def test_rules_that_are_gone_are_refused_and_back_again_taken_up(watched: Watched) -> None:
    watched.rules.rename(watched.rules.with_suffix(".away"))
    watched.look()
    watched.rules.with_suffix(".away").rename(watched.rules)
    watched.look()
    assert len(watched.refused) == 1
    assert watched.taken == [watched.config.ruleset]


def test_at_the_end_of_the_day_allowances_are_looked_at_again(watched: Watched) -> None:
    watched.day = DAY.replace(day=2)
    watched.look(3)
    assert watched.taken == [watched.config.ruleset]
