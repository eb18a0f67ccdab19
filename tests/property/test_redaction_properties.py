"""What holds for every payload: nothing planted is left, nothing else is changed."""

import json
import subprocess
import sys
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from redaction_samples import (
    KEYS,
    aws_key,
    card,
    email,
    password,
    rule,
    small_redactor,
    small_ruleset,
)

from redactors import Redacted, Redactor, RulesetError, Unexaminable
from redactors.masks import Masks
from redactors.walk import NotJson, _parsed, _parsed_deep

MASKS = Masks({"SECRET", "CARD", "EMAIL", "PASSWORD", "NAME", "PRIVATE_KEY"}, KEYS)
SEEDS = st.integers(1, 5)
PLANTED = st.one_of(SEEDS.map(aws_key), SEEDS.map(card), SEEDS.map(email))
JUNK = st.sampled_from(
    ["", "hello ", "x=", '"', "'", "\\", "\n", "\t", "é", "\U0001f600", "[SECRET]", "[EMAIL",
     "password: ", 'password="', '{"password": "', "[PASSWORD]", " AKIA", "://u:", "@h/", "{", "}",
     "[", "]", ":", ",", "\x00", "\x1a", "%41", "a/b", "&", "\\u0041", " --password ", "\u200b"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(JUNK, JUNK, PLANTED, SEEDS.map(password)), max_size=6).map("".join)
KEYS_OF_OBJECTS = st.one_of(
    TEXTS, st.sampled_from(["password", "first_name", "name", "value", "headers", "apiKey"])
)
SCALARS = st.one_of(
    TEXTS, SEEDS.map(card).map(int), st.sampled_from([1, 1.5, None, True, -3, 10**30])
)


def nested(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=3),
        st.dictionaries(KEYS_OF_OBJECTS, children, max_size=4),
        children.map(json.dumps),
    )


VALUES = st.recursive(SCALARS, nested, max_leaves=12)


def spacious(value: Any) -> str:
    """JSON with a space wherever one may be."""
    return json.dumps(value, indent=1, separators=(" , ", " : "))


BODIES = st.tuples(VALUES, st.booleans()).map(lambda v: json.dumps(v[0], ensure_ascii=v[1]))


def shape(value: Any) -> Any:
    """The containers of a value, and how many members each has."""
    if isinstance(value, dict):
        return [shape(member) for member in value.values()]
    if isinstance(value, list):
        return [len(value), *(shape(item) for item in value)]
    return None


def at(document: Any, path: str) -> Any:
    """What a JSON pointer points to."""
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


def marked_texts(redacted: Redacted) -> list[str]:
    """What stands at each declared place that a JSON pointer and a span can reach."""
    document, found = json.loads(redacted.text), []
    for redaction in redacted.redactions:
        layers = redaction.layers
        if layers[:1] == ("key",):
            text = redaction.path.rsplit("/", 1)[1].replace("~1", "/").replace("~0", "~")
            layers = layers[1:]
        else:
            text = at(document, redaction.path)
        if layers in ((), ("json",)):
            whole = redaction.span_start is None
            found.append(text if whole else text[redaction.span_start : redaction.span_end])
    return found


@given(BODIES)
@settings(max_examples=500)
def test_the_output_is_json_of_the_same_shape(body: str) -> None:
    assert shape(json.loads(small_redactor().redact_json(body).text)) == shape(json.loads(body))


@given(
    st.one_of(
        BODIES,
        VALUES.map(spacious),
        st.text(alphabet='[]{}:,"\\\\au0019.eE+- \\ntrfls', max_size=40),
    )
)
@settings(max_examples=700)
def test_what_is_nested_too_deeply_for_the_fast_reader_is_read_alike(body: str) -> None:
    assert read_by(_parsed, body) == read_by(_parsed_deep, body)


def read_by(read: Any, body: str) -> Any:
    try:
        return read(body, 0)
    except NotJson:
        return "not JSON"


@given(BODIES)
@settings(max_examples=500)
def test_redacting_twice_changes_nothing(body: str) -> None:
    once = small_redactor().redact_json(body)
    assert small_redactor().redact_json(once.text) == Redacted(once.text, ())


@given(TEXTS)
@settings(max_examples=500)
def test_redacting_a_text_twice_changes_nothing(text: str) -> None:
    once = small_redactor().redact_text(text)
    assert small_redactor().redact_text(once.text) == Redacted(once.text, ())


@given(BODIES)
@settings(max_examples=500)
def test_every_declared_place_holds_a_mask(body: str) -> None:
    assert all(MASKS.is_mask(text) for text in marked_texts(small_redactor().redact_json(body)))


@given(BODIES)
@settings(max_examples=500)
def test_a_body_without_redactions_is_what_it_was(body: str) -> None:
    redacted = small_redactor().redact_json(body)
    assert bool(redacted.redactions) == (redacted.text != body)


@given(JUNK, st.sampled_from([aws_key, email]), SEEDS, st.sampled_from([" ", "\n", "é", '"']))
@settings(max_examples=500)
def test_no_planted_value_is_left_in_a_nested_text(
    around: str, planted: Any, seed: int, gap: str
) -> None:
    value = planted(seed)
    body = json.dumps({"a": json.dumps([{"b": f"{around}{gap}{value}{gap}"}])})
    assert value not in small_redactor().redact_json(body).text


@given(st.text(max_size=200))
@settings(max_examples=1000)
def test_any_text_is_redacted_or_refused_but_never_crashes(text: str) -> None:
    try:
        small_redactor().redact_text(text)
        small_redactor().redact_json(text)
    except Unexaminable as refused:
        assert refused.code in {"not-json", "lone-surrogate"}


@given(st.text(alphabet="ab.*+?[](){}|^$\\-1,dwsbBn:iP<>", max_size=24))
@settings(max_examples=500)
def test_a_hostile_pattern_is_refused_or_runs(pattern: str) -> None:
    try:
        redactor = Redactor(small_ruleset(rule("hostile", pattern)), KEYS)
    except RulesetError as refused:
        assert refused.reason
        return
    once = redactor.redact_json('{"a": "aaab \\n 1111 abab"}')
    assert redactor.redact_json(once.text).text == once.text


def test_another_process_makes_the_same_of_the_same() -> None:
    body = json.dumps({"x": f"key {aws_key()} of {email()}", "password": password()})
    program = (
        "import sys\nfrom redaction_samples import small_redactor\n"
        "print(small_redactor().redact_json(sys.stdin.read()).text)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            input=body, capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout.strip()
        for seed in ("0", "1")
    }  # fmt: skip
    assert said == {small_redactor().redact_json(body).text}
