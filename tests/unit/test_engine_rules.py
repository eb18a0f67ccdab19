"""Scopes, recognisers, patterns and keys: the parts that a redactor is made of."""

import io
import json
import stat
from pathlib import Path

import pytest
from redaction_samples import KEYS, aws_key, card, email, rule, small_redactor, small_ruleset

import redactors.presidio
from redactors import KeyRing, KeyRingError, Redactor, RulesetError, load_or_create_keys
from redactors.fields import Roles
from redactors.filter import Refused, redact_lines
from redactors.layers import revealed, unquoted, views
from redactors.pattern import longest, over_bytes, parse
from redactors.ruleset import Allow, Keep, Recognizer


def recognizer(entity: str = "PERSON", **changes: object) -> Recognizer:
    given = {"id": "person", "presidio": entity, "label": "NAME", "reason": "t", "owner": "t"}
    return Recognizer.model_validate({**given, **changes})


PROSE = "Yesterday Sarah Johnson called us about the broken lamp in her kitchen."


def test_a_name_in_prose_is_hashed_where_a_ruleset_asks_presidio_for_it() -> None:
    redactor = Redactor(small_ruleset(recognizers=(recognizer(),)), KEYS)
    once = redactor.redact_json(json.dumps({"text": PROSE, "n": 3}))
    assert "Sarah" not in once.text and "broken lamp" in once.text
    assert redactor.redact_json(once.text).text == once.text
    assert redactor.redact_json('{"t": "Sarah Johnson"}').text == '{"t": "Sarah Johnson"}'


def test_the_texts_of_a_payload_are_analysed_at_once_and_none_of_them_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redactor = Redactor(small_ruleset(recognizers=(recognizer(),)), KEYS)
    engine = redactor._compiled.recognizers._analyzer.nlp_engine
    batches: list[list[str]] = []
    analyse = engine.process_batch
    monkeypatch.setattr(
        engine, "process_batch", lambda texts, *a: batches.append(texts) or analyse(texts, *a)
    )
    plain = [f"The {colour} lamp was broken in the kitchen." for colour in ("red", "blue")]
    for _ in range(2):
        redactor.redact_json(json.dumps([*plain, plain[0], "no prose"]))
    assert batches == [plain]


def test_without_a_key_no_text_is_taken_for_another() -> None:
    redactor = Redactor(small_ruleset(recognizers=(recognizer(kind="secret"),)), None)
    other = PROSE.replace("Sarah Johnson", "The old owner")
    assert redactor.redact_text(other).text == other
    assert "Sarah" not in redactor.redact_text(PROSE).text


def test_a_recogniser_looks_only_at_its_scope() -> None:
    scoped = recognizer(scope=("/messages/*/text",))
    redactor = Redactor(small_ruleset(recognizers=(scoped,)), KEYS)
    masked = json.loads(
        redactor.redact_json(json.dumps({"messages": [{"text": PROSE}], "log": PROSE})).text
    )
    assert masked["log"] == PROSE != masked["messages"][0]["text"]


def test_without_the_extra_a_ruleset_that_needs_it_is_refused_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redactors.presidio.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RulesetError, match=r"pip install 'redactory\[ner\]'"):
        Redactor(small_ruleset(recognizers=(recognizer(),)), KEYS)


def test_an_entity_that_presidio_does_not_have_is_refused() -> None:
    with pytest.raises(RulesetError, match="no entity 'OTTER'"):
        Redactor(small_ruleset(recognizers=(recognizer("OTTER"),)), KEYS)


def test_a_kept_scope_is_untouched_but_never_lets_a_secret_through() -> None:
    keep = Keep(id="ids", scope=("/trace_id", "/spans/*/id"), reason="identifiers")
    redactor = Redactor(small_ruleset(keep=(keep,)), KEYS)
    value = {"trace_id": card(), "spans": [{"id": card(), "x": card()}], "other": card()}
    masked = json.loads(redactor.redact_json(json.dumps(value)).text)
    assert (masked["trace_id"], masked["spans"][0]["id"]) == (card(), card())
    assert (masked["spans"][0]["x"], masked["other"]) == ("[CARD]", "[CARD]")
    assert aws_key() not in redactor.redact_json(json.dumps({"trace_id": aws_key()})).text


def test_what_is_allowed_is_no_finding() -> None:
    allow = (
        Allow(value=aws_key(), reason="sample"),
        Allow(pattern=r".*@mail\.example\.org", reason="reserved"),
    )
    redactor = Redactor(small_ruleset(allow=allow), KEYS)
    text = f"{aws_key()} {email()}"
    assert redactor.redact_text(text).text == text
    assert redactor.redact_text(aws_key(2)).text == "[SECRET]"


@pytest.mark.parametrize(
    "pattern", ["(a", "a)", "[a", "a{2", "*a", "a*", "", "(?=a)b", r"\1", r"a\qb", "[é-ü]", "a|"]
)
def test_a_pattern_outside_the_shared_syntax_is_refused_by_its_rules_name(pattern: str) -> None:
    if pattern == "a{2":  # an ordinary brace to RE2 as well
        assert Redactor(small_ruleset(rule("brace", pattern)), KEYS)
        return
    with pytest.raises(RulesetError, match="odd"):
        Redactor(small_ruleset(rule("odd", pattern)), KEYS)


def test_the_longest_match_of_a_pattern_is_known() -> None:
    assert longest(parse(r"\bab?(?:c{2,5}|[d-f]{7})$", "r")) == 9
    assert longest(parse("a+", "r")) is None


def test_a_class_with_a_wide_character_becomes_a_choice_of_bytes() -> None:
    redactor = Redactor(small_ruleset(rule("wide", "号[：:]([0-9]{4})", group=1)), KEYS)
    assert over_bytes("[：:]", "r") != "[：:]".encode()
    assert redactor.redact_text("号：1234 号:5678").text == "号：[SECRET] 号:[SECRET]"


def test_a_long_match_is_masked_whole_around_where_the_scan_saw_it() -> None:
    redactor = Redactor(small_ruleset(rule("long", r"tok_[a-z0-9]{8,200}")), KEYS)
    text = f"{'x ' * 5000}tok_{'a1' * 60} end {'y ' * 5000}"
    assert redactor.redact_text(text).text == f"{'x ' * 5000}[SECRET] end {'y ' * 5000}"


def test_views_lead_back_to_the_text() -> None:
    assert unquoted("a%C3%A9b").text == "aéb"
    assert unquoted("a%C3%A9b").original(1, 2) == (1, 7)
    assert revealed("p\u200bｗ").original(1, 2) == (2, 3)
    assert [chain[-1].text for chain in views("%2541")] == ["%41", "A"]


def test_a_name_is_known_by_its_words_and_not_by_chance() -> None:
    roles = Roles(small_ruleset().fields, lambda name: "[SECRET]" in name)
    for name in ("apiKey", "API-KEY", "my.api key", "Authorization"):
        assert roles.rule_for(name) is not None, name
    for name in ("api", "keyapi", "authorizations", "p_a_s_s_word"):
        assert roles.rule_for(name) is None, name
    assert roles["[SECRET]"] is None


def test_a_key_ring_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "home" / "keys.json"
    made, created = load_or_create_keys(path)
    again, second = load_or_create_keys(path)
    assert (created, second) == (True, False)
    assert again == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(KeyRingError, match="chmod 600"):
        KeyRing.load(path)


def test_a_key_ring_names_its_mistake_and_never_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("not json")
    path.chmod(0o600)
    with pytest.raises(KeyRingError, match="not a key ring"):
        KeyRing.load(path)
    with pytest.raises(KeyRingError, match="no key"):
        KeyRing("other", KEYS.keys)
    assert KEYS.keys["k1"].hex() not in repr(KEYS) and str(KEYS.keys["k1"]) not in repr(KEYS)


def test_the_filter_masks_line_by_line_and_leaves_out_what_it_cannot_examine() -> None:
    lines = f'{{"a":"{aws_key()}"}}\nnot json\r\n[1.10]\r\n\xff\n'.encode("latin-1")
    out = list(redact_lines(io.BytesIO(lines), small_redactor()))
    assert out == [b'{"a":"[SECRET]"}\n', Refused(2, "not-json"), b"[1.10]\r\n",
                   Refused(4, "not-utf-8")]  # fmt: skip


def test_the_filter_declares_what_it_did() -> None:
    source = io.BytesIO(f"key {aws_key()}".encode())
    (line,) = redact_lines(source, small_redactor(), text=True, declare=True)
    assert isinstance(line, bytes)
    declared = json.loads(line)
    assert declared["value"] == "key [SECRET]"
    assert declared["redactions"][0]["rule"] == "aws-key"


def test_the_filter_reads_no_further_than_it_has_written() -> None:
    read = 0

    class Endless(io.BytesIO):
        def readline(self, _limit: int | None = -1) -> bytes:
            nonlocal read
            read += 1
            return b'{"a": 1}\n'

    lines = redact_lines(Endless(), small_redactor())
    for count in range(1, 1000):
        assert next(lines) == b'{"a": 1}\n'
        assert read == count
