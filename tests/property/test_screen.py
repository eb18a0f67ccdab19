"""The screen never passes on what the full examination would change."""

import base64
import json
import random
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redaction_samples import KEYS

from redactors import Redacted, Redactor, Unexaminable, load_ruleset
from redactors.templates import expand

ENDS = (
    *("", "", " ", '"', "'", "\\", "\n", "\t", "\r\n", "é", ":", "=", ",", "}", "]", "[", "x"),
    *("7", "-", "/", "\\n", "\\d", '","', '": "', "{", "%41", "\u200b", "\uff21", "[SECRET]"),
    *("`", "(", "C:\\new", "<b>", "&", ";", "."),
)
NAMES = (
    *("text", "name", "value", "key", "password", "api_key", "X-Api-Key", "email", "first_name"),
    *("a b", "", "token =", 'token = "', "pass: '", "--secret", "address", "é", "content", "tags"),
    *("headers", "card number", "phone", "credit_card", "secret key", "DOB", "input_tokens"),
)


@cache
def redactor() -> Redactor:
    return Redactor(load_ruleset(), KEYS)


@cache
def planted() -> tuple[str, ...]:
    """What every rule of the default ruleset finds, and what it does not."""
    ruleset = load_ruleset()
    rules = (*ruleset.rules, *ruleset.fields)
    examples = [template for rule in rules for template in (*rule.matches, *rule.rejects)]
    return tuple(dict.fromkeys(map(expand, examples)))


def variant(source: random.Random) -> str:
    """A JSON text with examples of rules in it, however they may be written down in one."""
    value = written(source, 0)
    for _ in range(source.choice((0, 0, 1, 1, 2))):
        value = wrapped(source, value)
    return dumped(source, value)


def written(source: random.Random, depth: int) -> object:
    example = source.choice(planted())
    name, separator, rest = example.partition(":")
    match source.randrange(10):
        case 8:
            return {source.choice(NAMES): around(source, coded(source, example))}
        case 0:
            return {source.choice((name, *NAMES)): rest.strip() if separator else example}
        case 1:
            return {source.choice(NAMES): around(source, piece(source, example))}
        case 2:
            return {around(source, example): source.choice((1, None, "x"))}
        case 3:
            digits = "".join(filter(str.isdigit, example))[:40].lstrip("0")
            return {source.choice(NAMES): int(digits or 7)}
        case 4:
            at = source.randint(0, len(example))
            return {example[:at].strip(): example[at:].strip()}
        case 5:
            return {"name": name, "value": rest.strip()}
        case 6:
            return [source.choice((name, "--" + name)), rest.strip(), around(source, example)]
        case 7 if depth < 2:
            return wrapped(source, written(source, depth + 1))
        case _:
            return around(source, example)


def piece(source: random.Random, example: str) -> str:
    """The example, or the words of it from somewhere on."""
    words = example.split(" ")
    return " ".join(words[source.randrange(len(words)) :])


def coded(source: random.Random, example: str) -> str:
    """Base64 of the example among other bytes, in a data URL and out of one."""
    begin = source.choice((b"", b"7 ", b"\x89PNG\r\n", b"\x1f\x8b\x08", source.randbytes(40)))
    end = source.choice((b"", b" ", source.randbytes(50)))
    code = base64.b64encode(begin + example.encode() + end).decode()
    if source.random() < 0.2:
        code = base64.urlsafe_b64encode(source.randbytes(60)).decode()
    head = source.choice(("", "data:image/png;base64,", "data:text/plain;charset=utf-8;base64,"))
    return head + code[source.choice((0, 0, 0, 1, 2, 3)) :]


def around(source: random.Random, text: str) -> str:
    return source.choice(ENDS) + source.choice(ENDS) + text + source.choice(ENDS)


def wrapped(source: random.Random, value: object) -> object:
    match source.randrange(6):
        case 0:
            return around(source, dumped(source, value))
        case 1:
            return {source.choice(NAMES): dumped(source, value)}
        case 2:
            return {source.choice(NAMES): [source.choice(("a", 12, {})), value]}
        case 3:
            return {source.choice(NAMES): value, "usage": {"input_tokens": 90_000}}
        case 4:
            return [value, source.choice(NAMES)]
        case _:
            return f"see {dumped(source, value)} there"


def dumped(source: random.Random, value: object) -> str:
    text = json.dumps(
        value,
        ensure_ascii=source.random() < 0.3,
        indent=source.choice((None, None, 2)),
        separators=source.choice(((",", ":"), (", ", ": "), (" , ", " :\t"))),
    )
    return text.replace("/", "\\/") if source.random() < 0.1 else text


def outcome(redact: object, body: str) -> Redacted | str:
    try:
        return redact(body, None)  # type: ignore[operator]
    except Unexaminable as refused:
        return refused.code


def differs(body: str) -> bool:
    """Whether the screen makes a difference to what comes out."""
    return outcome(redactor().redact_json, body) != outcome(redactor()._redacted_in_full, body)


@given(st.integers(0, 2**32))
@settings(max_examples=1500)
def test_screened_or_not_the_result_is_the_same(seed: int) -> None:
    body = variant(random.Random(seed))
    assert not differs(body), f"seed {seed}"


def test_every_example_is_examined_in_full_wherever_it_is_found() -> None:
    for example in planted():
        for body in (json.dumps(example), json.dumps({"a": {"b": ["x", example]}})):
            assert not differs(body)


@given(st.text(max_size=200))
@settings(max_examples=300)
def test_any_text_comes_out_the_same(text: str) -> None:
    assert not differs(text)
    assert not differs(json.dumps({"text": text}))


@pytest.mark.parametrize(
    "data",
    [
        b"II*\0" + bytes(range(128, 200)),
        b"ID3" + bytes(60),
        b"LZIP" + bytes(60),
        "\u043f\u0430\u0440\u043e\u043b\u044c: password=hunter27".encode(),
    ],
    ids=["picture", "sound", "compressed", "text"],
)
def test_what_a_data_url_holds_is_examined_in_full(data: bytes) -> None:
    url = f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"
    body = json.dumps({"text": f"see {url} there"})
    assert not differs(body)
    assert redactor().redact_json(body).redactions


def test_most_plain_events_are_passed_on() -> None:
    source = random.Random(1)
    passed = [redactor()._is_clean(plain_event(source), None) for _ in range(100)]
    assert sum(passed) >= 95


def plain_event(source: random.Random) -> str:
    words = source.choices(("agent", "reads", "the", "file", "again", "\n", "line 7", "ok."), k=80)
    return json.dumps(
        {
            "event_id": f"{source.getrandbits(128):032x}", "next_token": None,
            "result": {"stdout": " ".join(words), "exit_code": 0},
            "usage": {"input_tokens": source.randrange(90_000), "output_tokens": 512},
        }
    )  # fmt: skip


@pytest.mark.full
def test_screened_or_not_a_hundred_thousand_variants_come_out_the_same() -> None:
    source = random.Random(20_260_501)
    assert not [body for body in (variant(source) for _ in range(100_000)) if differs(body)]


def laid_out(name: str, value: str) -> tuple[object, ...]:
    """The ways in which a name may stand over its value."""
    return (
        {name: value},
        {name: ["harmless", value]},
        {"a": 1, name: ["z", ["y", value]]},
        {name: {"value": value}},
        {name: [{"id": 3, "v": value}]},
        {"headers": [{"name": name, "value": value}]},
        {"args": [name, value]},
    )


def test_a_name_over_its_value_is_seen_however_the_two_are_laid_out() -> None:
    changed = 0
    for example in planted():
        name, _, value = (part.strip(" '\"") for part in re.split("([:=]|$)", example, maxsplit=1))
        if not name or not value:
            continue
        for document in laid_out(name, value):
            body = json.dumps(document)
            assert not differs(body)
            changed += bool(redactor().redact_json(body).redactions)
    assert changed > 1000
