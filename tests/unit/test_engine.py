"""The redactor's promises, one by one."""

import base64
import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable

import pytest
from redaction_samples import (
    KEYS,
    aws_key,
    card,
    email,
    field,
    letters,
    password,
    rule,
    small_redactor,
    small_ruleset,
)

from redactors import KeyRing, Redactor, RunMemory, Unexaminable


def stored(value: object) -> object:
    """`value` after redaction by the small ruleset."""
    return json.loads(small_redactor().redact_json(json.dumps(value)).text)


def test_what_is_outside_a_span_stays_byte_for_byte() -> None:
    body = '{ "n": 123456789012345678901234567890, "f":1.10,\t"u":"\\u00e9\\/", "u":"%s x" }'
    assert small_redactor().redact_json(body % aws_key()).text == body % "[SECRET]"


def test_a_field_is_masked_by_name_however_it_is_spelled() -> None:
    for name in ("password", "dbPassword", "DB-PASSWORD", "api key", "X-Api-Key", "user.password2"):
        assert stored({name: "otter"}) == {name: "[PASSWORD]"}, name


def test_a_field_rule_looks_at_names_not_at_values_that_equal_them() -> None:
    value = {"tags": ["password", "secret", "b"], "user": "password"}
    assert stored(value) == value


def test_headers_arguments_and_pairs_are_fields() -> None:
    value = {
        "headers": [{"name": "X-Api-Key", "value": "otter"}, {"name": "Accept", "value": "*/*"}],
        "raw": [["Authorization", "otter"], ["Accept", "*/*"]],
        "argv": ["mysql", "--password", "otter", "-v"],
        "attributes": [{"key": "password", "value": {"stringValue": "otter"}}],
    }
    text = json.dumps(stored(value))
    assert "otter" not in text
    assert text.count("*/*") == 2 and '"-v"' in text


def test_a_named_secret_in_a_text_is_masked_in_every_way_of_writing_it() -> None:
    secret = password()
    for text in (
        f"password={secret}", f'"password": "{secret}"', f"--password {secret} -v",
        f"PASSWORD='{secret}'", f"https://h/?api_key={secret}&x=1", f'set("api-key", "{secret}")',
        f"api key: {secret}", f"Authorization: Bearer {secret}", f"http://u:{secret}@h/x",
    ):  # fmt: skip
        assert secret not in small_redactor().redact_text(text).text, text


def test_code_that_only_names_a_secret_stays() -> None:
    for text in (
        "password = get_secret(name)",
        "token=token, password=password",
        "the password: ok",
    ):
        assert small_redactor().redact_text(text).text == text


def test_a_number_becomes_a_mask_and_the_json_stays_valid() -> None:
    assert stored({"card": int(card()), "n": 12}) == {"card": "[CARD]", "n": 12}


def test_two_keys_that_mask_to_one_name_stay_two() -> None:
    value = stored({aws_key(1): 1, aws_key(2): 2, "[SECRET]": 3})
    assert value == {"[SECRET]": 3, "[SECRET#2]": 1, "[SECRET#3]": 2}


def test_a_span_counts_code_points_of_the_stored_text() -> None:
    body = json.dumps({"t": f"\U0001f600\U0001f600 {aws_key()} end"})
    redacted = small_redactor().redact_json(body)
    (redaction,) = redacted.redactions
    assert json.loads(redacted.text)["t"][redaction.span_start : redaction.span_end] == "[SECRET]"
    assert (redaction.path, redaction.rule, redaction.layers) == ("/t", "aws-key", ())


def test_equal_values_get_equal_pseudonyms_and_different_ones_do_not() -> None:
    first, second, third = stored([email(1), email(2), email(1)])  # type: ignore[misc]
    assert first == third != second
    assert first.startswith("[EMAIL:k1:")


def test_a_forged_mask_is_text() -> None:
    forged = ["[SECRET:" + card() + "]", "[" + aws_key() + "]", "[EMAIL:k1:" + "A" * 16 + "]"]
    genuine = small_redactor().pseudonym("a", "EMAIL")
    masked = stored([*forged, {"password": "[NOPE]"}, {"password": genuine}])
    assert masked == [
        "[SECRET:[CARD]]", "[[SECRET]]", forged[2],
        {"password": "[PASSWORD]"}, {"password": genuine},
    ]  # fmt: skip


def test_a_mask_inside_a_value_does_not_shield_the_rest() -> None:
    assert stored({"password": "[SECRET]otter-7"}) == {"password": "[PASSWORD]"}
    assert small_redactor().redact_text("password=[SECRET]otter-7").text == (
        "password=[SECRET][PASSWORD]"
    )


def test_masks_of_every_key_in_the_ring_are_recognised_after_a_rotation() -> None:
    old = small_redactor().redact_json(json.dumps([email()])).text
    rotated = Redactor(small_ruleset(), KEYS.rotated())
    assert rotated.redact_json(old).text == old
    assert rotated.redact_json(json.dumps([email()])).text != old


def test_without_a_key_secrets_are_masked_and_personal_data_is_left_to_who_has_one() -> None:
    redactor = Redactor(small_ruleset(), None, by="emitter")
    body = json.dumps([aws_key(), email(), {"first_name": "Ada"}])
    first = redactor.redact_json(body)
    assert json.loads(first.text) == ["[SECRET]", email(), {"first_name": "Ada"}]
    assert {redaction.by for redaction in first.redactions} == {"emitter"}
    assert small_redactor().redact_json(first.text).text == small_redactor().redact_json(body).text


def test_base64_is_masked_inside_and_written_again_in_place() -> None:
    run = base64.b64encode(f"config {aws_key()} and more".encode()).decode()
    redacted = small_redactor().redact_json(json.dumps({"a": f"x {run} y"}))
    text = json.loads(redacted.text)["a"]
    assert base64.b64decode(text.split()[1]) == b"config [SECRET] and more"
    assert redacted.redactions[0].layers == ("base64",)


def test_compressed_content_with_a_finding_is_replaced_whole() -> None:
    run = base64.b64encode(gzip.compress(f"log {aws_key()} end".encode(), mtime=0)).decode()
    clean = base64.b64encode(gzip.compress(b"nothing to see in here", mtime=0)).decode()
    assert stored([run, clean]) == ["[SECRET]", clean]


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress, bz2.compress, lzma.compress])
def test_compressed_content_that_cannot_be_told_in_full_is_replaced(
    compress: Callable[[bytes], bytes],
) -> None:
    """Damaged in the middle, too long, twice over, or two streams one after the other."""
    lines = b"".join(b"%d %s\n" % (n, letters(n, 40).encode()) for n in range(500))
    whole = compress(lines)
    damaged = whole[:-200] + bytes(180) + whole[-20:]
    masks = stored([base64.b64encode(damaged).decode(), encoded(compress(bytes(17 * 2**20)))])
    assert all(mask.startswith("[BLOB:k1:") for mask in masks)  # type: ignore[attr-defined]
    secret = compress(f"log {aws_key()} end".encode())
    assert stored([encoded(compress(secret)), encoded(compress(b"a clean line") + secret)]) == (
        ["[SECRET]", "[SECRET]"]
    )
    clean = encoded(compress(compress(lines)))
    assert stored([clean]) == [clean]


def test_what_is_compressed_in_a_way_that_is_not_undone_here_is_replaced() -> None:
    frame = b"(\xb5/\xfd" + b" \x19\xc9\x00\x00" + aws_key().encode() + bytes(5)
    assert stored([encoded(frame)])[0].startswith("[BLOB:k1:")  # type: ignore[index]


def test_text_that_begins_as_compressed_data_does_is_text() -> None:
    run = encoded(f"BZh is how {aws_key()} begins".encode())
    (masked,) = stored([run])  # type: ignore[misc]
    assert base64.b64decode(masked) == b"BZh is how [SECRET] begins"
    for data in (b"x\x9c" + bytes(range(128, 250)), b"x\x01\xff" + bytes(range(128, 250))):
        assert stored([encoded(data)]) == [encoded(data)]


def test_a_key_between_bytes_that_are_no_text_takes_the_whole_run_with_it() -> None:
    data = bytes(range(128, 200)) + f"key={aws_key()};".encode() + bytes(range(200, 256))
    clean = bytes(range(128, 200)) + b"nothing to be found in here" + bytes(range(200, 256))
    assert stored([encoded(data), "x" + encoded(data), encoded(clean)]) == (
        ["[SECRET]", "[SECRET]", encoded(clean)]
    )


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_an_image_becomes_its_length_and_keyed_hash() -> None:
    run = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(100))).decode()
    redacted = small_redactor().redact_json(json.dumps({"url": f"data:image/png;base64,{run}"}))
    (redaction,) = redacted.redactions
    assert json.loads(redacted.text)["url"].startswith("data:image/png;base64,[BLOB:k1:")
    assert (redaction.action, redaction.length) == ("length", len(run))


def test_bytes_that_are_no_file_stay_whatever_a_data_url_calls_them() -> None:
    run = base64.b64encode(bytes(range(128, 255)) * 2).decode()
    assert stored([f"data:image/png;base64,{run}"]) == [f"data:image/png;base64,{run}"]


def test_hidden_spellings_are_seen_through() -> None:
    key = aws_key()
    fullwidth = "".join(chr(ord(c) + 0xFEE0) for c in key)
    hidden = [f"{key[:7]}\u200b{key[7:]}", fullwidth, f"%41{key[1:]}", f"%2541{key[1:]}",
              f"\\u0041{key[1:]}"]  # fmt: skip
    assert stored(hidden) == ["[SECRET]"] * len(hidden)
    assert stored({"pass\u200bword": "otter"}) == {"pass\u200bword": "[PASSWORD]"}
    assert stored([email().replace("@", "%40")]) == stored([email()])


def test_depth_and_size_do_not_hide_or_crash() -> None:
    deep = "[" * 10_000 + json.dumps(aws_key()) + "]" * 10_000
    assert small_redactor().redact_json(deep).text == deep.replace(aws_key(), "[SECRET]")
    long = json.dumps({"a": "x " * 2_000_000 + aws_key()})
    assert aws_key() not in small_redactor().redact_json(long).text


@pytest.mark.parametrize("depth", [600, 10_000])
def test_no_depth_of_objects_hides_a_key_or_a_mistake(depth: int) -> None:
    inside = f'[{{"t": "{aws_key()}"}}, 1.10, {{}}, []]'
    deep = '{"a": [' * depth + inside + "]}" * depth
    masked = deep.replace(aws_key(), "[SECRET]")
    assert small_redactor().redact_json(deep).text == masked
    assert small_redactor().redact_text(f"see {deep} there").text == f"see {masked} there"
    path = small_redactor().redact_json(deep).redactions[0].path
    assert path == "/a/0" * depth + "/0/t"
    for mistake in ("[1,]", "{,}", '{"a" 1}', "{1: 2}", "[1}", "[1 2]", '{"a":}', "[", '["'):
        with pytest.raises(Unexaminable):
            small_redactor().redact_json('{"a": [' * depth + mistake + "]}" * depth)


@pytest.mark.full
@pytest.mark.parametrize("piece", ["x ", "\\n", "é", "0", "A1b2+/", '\\"', "a=b&", "%41", "é=1 "])
def test_a_string_of_fifty_megabytes_is_masked_or_refused(piece: str) -> None:
    body = f'{{"a": "{piece * (50_000_000 // len(piece))} {aws_key()}"}}'
    try:
        assert aws_key() not in small_redactor().redact_json(body).text
    except Unexaminable as refused:
        assert refused.code == "too-dense"


def test_repeated_keys_and_lone_surrogates_survive() -> None:
    body = f'{{"a":"{aws_key()}","a":"\\ud800 {aws_key(2)}","\\udfff":1}}'
    assert small_redactor().redact_json(body).text == (
        '{"a":"[SECRET]","a":"\\ud800 [SECRET]","\\udfff":1}'
    )


@pytest.mark.parametrize("body", ["", "{", "[1,]", '{"a":1,}', "nope", "1 2", '"\n"', "[NaN]"])
def test_what_is_no_json_is_refused(body: str) -> None:
    with pytest.raises(Unexaminable) as refused:
        small_redactor().redact_json(body)
    assert refused.value.code == "not-json"


def test_an_identifier_stays_unless_it_does_not_look_like_one_or_holds_a_secret() -> None:
    columns = {"run_id": "04075551-2368-4199-8123-456789012345", "call_id": aws_key(),
               "name": "ada@example.org", "event_id": "run/7"}  # fmt: skip
    kept, redactions = small_redactor().redact_identifiers(columns)
    assert (kept["run_id"], kept["event_id"]) == (columns["run_id"], columns["event_id"])
    assert {redaction.path for redaction in redactions} == {"call_id", "name"}
    assert all(kept[column].startswith("[ID:k1:") for column in ("call_id", "name"))


@pytest.mark.parametrize(
    ("action", "expected"), [("mask", "[X]"), ("length", "[X:len=9]"), ("drop", ""), ("keep", None)]
)
def test_an_action_does_what_it_says(action: str, expected: str | None) -> None:
    redactor = Redactor(small_ruleset(field("f", "hint", label="X", action=action)), KEYS)
    value = json.loads(redactor.redact_json('{"hint": "sea otter"}').text)
    assert value == {"hint": "sea otter" if expected is None else expected}


def test_a_rule_that_keeps_shields_what_it_finds() -> None:
    redactor = Redactor(small_ruleset(rule("ours", r"ops@mail\.example\.org", action="keep")), KEYS)
    assert redactor.redact_text("to ops@mail.example.org").text == "to ops@mail.example.org"


def test_a_run_remembers_what_a_field_showed() -> None:
    redactor, memory, secret = small_redactor(), RunMemory(), password()
    prose = json.dumps({"error": f"signature made with {secret} was refused"})
    assert redactor.redact_json(prose, memory).text == prose
    redactor.redact_json(json.dumps({"password": secret}), memory)
    later = redactor.redact_json(prose, memory)
    assert secret not in later.text
    assert later.redactions[0].rule == "memory:field-password"
    assert redactor.redact_json(prose, RunMemory()).text == prose


def test_common_and_short_values_are_not_remembered() -> None:
    memory = RunMemory()
    for value in ("otter", "password", "available", "No 5", "United States", "1234567"):
        small_redactor().redact_json(json.dumps({"password": value}), memory)
    assert not memory


def test_a_sealed_memory_opens_with_its_key_for_its_run_only() -> None:
    memory = RunMemory()
    small_redactor().redact_json(json.dumps({"password": password()}), memory)
    sealed = memory.seal(KEYS, "run-1")
    assert password().encode() not in sealed
    assert sealed == memory.seal(KEYS, "run-1")
    again = RunMemory.unseal(sealed, KEYS, "run-1")
    assert password() not in small_redactor().redact_json(json.dumps([password()]), again).text
    for keys, run in ((KeyRing.generate(), "run-1"), (KEYS, "run-2")):
        with pytest.raises(Exception, match="memory"):
            RunMemory.unseal(sealed, keys, run)


def test_a_text_too_dense_to_be_examined_in_linear_time_is_refused() -> None:
    body = json.dumps('{"' * 100_000)
    with pytest.raises(Unexaminable) as refused:
        small_redactor().redact_json(body)
    assert refused.value.code == "too-dense"
