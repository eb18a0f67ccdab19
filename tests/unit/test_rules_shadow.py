"""Rules in shadow: they find and count, change nothing, and show nothing of a payload."""

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from lake_samples import ingest, masked_slice
from redaction_samples import KEYS, aws_key, field, password, rule, small_ruleset
from typer.testing import CliRunner

from pipeline.building import SliceBuilder
from pipeline.cli.main import app
from pipeline.coders import MaskedSliceCoder
from pipeline.lake.checkpoints import cut_all
from pipeline.lake.store import Store
from pipeline.masking import Coordinates, Masker
from pipeline.retention.policy import load_policy
from pipeline.review.check import check
from pipeline.review.shadow import trials
from pipeline.review.trial import try_rules
from pipeline.shadow import MAX_SAMPLES, Hit, Shadow, shadow_of, shape
from pipeline.slices import MaskedSlice, Message, Shadowed
from pipeline.state.memories import Memories
from redactors import Redactor, RulesetError, load_ruleset, ruleset_digest
from redactors.explaining import Explainer
from schemas import RunEvent, encode

NOW_US = 1_790_000_000_000_000
BADGE = rule("badge", r"BADGE-\d{6}", label="BADGE", mode="shadow")
RULES = small_ruleset(BADGE, field("field-desk", "desk", label="DESK", mode="shadow"))
SHADOW = Shadow(RULES, KEYS)


def masked(*bodies: Any) -> MaskedSlice:
    """The events as one slice under the rules."""
    masker = Masker(Redactor(RULES, KEYS), load_policy(), SHADOW)
    memories, at = Memories(KEYS, {}), Coordinates("runs", 0)
    builder = SliceBuilder(0, NOW_US, 0.0, memories)
    for offset, body in enumerate(bodies):
        event = RunEvent(
            event_id=f"event-{offset}",
            run_id="run-1",
            sequence=offset,
            occurred_at=NOW_US,
            kind="message",
            body=json.dumps(body),
        )
        builder.take([Message(offset, NOW_US, b"run-1", encode(event))], masker, at)
    return builder.finish("id", masker, at)


def test_what_is_found_in_shadow_is_counted_and_nothing_is_changed() -> None:
    bodies = [{"note": f"ask BADGE-{n:06} at {n} o'clock"} for n in range(5)]
    bodies[0]["desk"] = "4.17 east"
    found = masked(*bodies)
    rows = found.parts[0].rows.to_pylist()
    assert [row["body"] for row in rows] == [json.dumps(body) for body in bodies]
    assert not any(row["redactions"] for row in rows)
    assert found.header.redactions == {}
    assert found.header.shadow == {
        "badge": Shadowed(5, ("/note: a [BADGE] a 9 a'a",)),
        "field-desk": Shadowed(1, ("/*: [DESK]",)),
    }
    coder = MaskedSliceCoder()
    assert coder.decode(coder.encode(found)).header == found.header


def test_what_the_other_rules_mask_is_not_counted() -> None:
    both = f"key {aws_key()} of BADGE-000001"
    found = masked({"password": "BADGE-000007", "note": both})
    assert found.header.shadow == {"badge": Shadowed(1, ("/note: a [a] a [BADGE]",))}
    assert found.header.redactions == {"field-password": 1, "aws-key": 1}


def test_inside_other_text_the_way_to_it_is_shown() -> None:
    inner = json.dumps({"said": "BADGE-123456"})
    assert SHADOW.look(json.dumps({"output": inner})) == [Hit("badge", "/output (json): [BADGE]")]
    assert SHADOW.look('"BADGE-123456"') == [Hit("badge", "/: [BADGE]")]
    assert SHADOW.look(json.dumps({"BADGE-123456": 1})) == [Hit("badge", "/* (key): [BADGE]")]


def test_samples_hold_nothing_of_the_payload() -> None:
    secret, name = password(), "Zaphod-" + password(2)
    body = {name: {"k7": f"{secret} {name} Ünïcode BADGE-123456, {secret}"}}
    (hit,) = SHADOW.look(json.dumps(body))
    assert hit.sample.startswith("/*/*: ")
    assert set(re.findall(r"\w+", hit.sample)) == {"a", "9", "a9a", "BADGE"}


def test_signs_that_stand_together_are_not_shown() -> None:
    assert shape("a secret of signs: !@#$%^&* (or so) é\u2014é") == "a a a a: ? (a a) a?a"


def test_a_slice_keeps_few_samples_however_many_there_are() -> None:
    found = masked(*({"note": ["BADGE-123456"] * n} for n in range(1, 9)))
    assert found.header.shadow["badge"].count == 36
    assert len(found.header.shadow["badge"].samples) == MAX_SAMPLES


def test_a_body_that_they_cannot_examine_is_told() -> None:
    dense = Shadow(small_ruleset(rule("any", r"[a-z]", mode="shadow")), KEYS)
    assert dense.look(json.dumps({"note": "x" * 100_000})) == [Hit("(too-dense)", "")]


def test_without_rules_in_shadow_nothing_is_looked_at_twice() -> None:
    assert shadow_of(small_ruleset(), KEYS) is None


def test_the_mode_is_part_of_the_digest_and_acting_is_as_before() -> None:
    acting = RULES.model_copy(update={"rules": (*small_ruleset().rules, rule("badge", "x"))})
    assert ruleset_digest(acting) != ruleset_digest(RULES)
    assert b"mode" not in load_ruleset().model_dump_json(exclude_defaults=True).encode()


def test_a_rule_in_shadow_cannot_end_a_built_in_one(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(
        'name: ours\nversion: "1"\nextends: default\nrules:\n'
        "  - {id: email, kind: pii, label: EMAIL, pattern: 'x@[a-z]+', reason: r, owner: o,\n"
        "     matches: ['x@{{lower:8}}'],\n     mode: shadow}\n"
    )
    with pytest.raises(RulesetError, match=r"ours\.yaml:7: email: a rule in shadow needs an id"):
        load_ruleset(path)


def test_explain_says_that_it_is_in_shadow() -> None:
    outcomes = Explainer(RULES, KEYS).explain('{"note": "BADGE-123456"}', is_json=True)
    assert [(o.rule, o.verdict, o.field) for o in outcomes] == [("badge", "shadow", "/note")]


def test_its_examples_are_tried_as_if_it_acted(tmp_path: Path) -> None:
    good = BADGE.model_copy(update={"matches": ("BADGE-{{digits:6}}",)})
    assert try_rules(small_ruleset(good), []).failures == ()
    worse = BADGE.model_copy(update={"matches": ("BADGE-{{digits:5}}",)})
    assert len(try_rules(small_ruleset(worse), []).failures) == 1


def test_a_rule_that_acts_loses_nothing_to_one_in_shadow(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    both = "".join(
        f"  - {{id: {name}, kind: secret, label: {name.upper()}, pattern: 'b_[a-z]{{8}}{more}',\n"
        f"     reason: r, owner: o, matches: ['b_{{{{lower:8}}}}'], mode: {mode}}}\n"
        for name, more, mode in (("a", "", "act"), ("b", "(?:)", "shadow"))
    )
    path.write_text(f'name: ours\nversion: "1"\nrules:\n{both}')
    report = check(path, date(2026, 12, 1))
    assert report.mistakes == ()
    (overlap,) = report.overlaps
    assert "b: each of its examples is taken by a" in overlap.reason


def test_a_lake_tells_what_was_found_in_shadow_and_where_it_stands_when_the_log_is_cut(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "lake"
    store = Store.open(lake, create=True)
    for start, samples in ((0, ("/a: [X]",)), (3, ("/a: [X]", "/b: [X]"))):
        part = masked_slice(start, start + 3)
        ingest(store, _with_shadow(part, {"x-rule": Shadowed(4, samples)}))
    (trial,) = trials(store)
    assert (trial.rule, trial.count, trial.samples) == ("x-rule", 8, ["/a: [X]", "/b: [X]"])
    printed = CliRunner().invoke(app, ["rules", "shadow", str(lake)]).stdout
    assert printed.startswith("x-rule: 8 times under ")
    cut_all(store)
    assert sum(trial.count for trial in trials(store)) == 0


def _with_shadow(masked: MaskedSlice, shadow: dict[str, Shadowed]) -> MaskedSlice:
    return replace(masked, header=replace(masked.header, shadow=shadow))
