"""The built-in rules: each acts in the engine as its examples say, and stays what it is for."""

import json
import re
from collections import Counter

import hyperscan
import pytest

from redactors import KeyRing, Redactor, Ruleset, load_ruleset
from redactors.templates import expand
from redactors.validators.opaque import opaque

# What every token of this registry starts with: the encoded name of the registry.
PYPI_PREFIX = "pypi-" + "AgEIcHlwaS5vcmc"
KEYS = KeyRing("k1", {"k1": bytes(range(32))})


@pytest.fixture(scope="module")
def ruleset() -> Ruleset:
    return load_ruleset()


@pytest.fixture(scope="module")
def redactor(ruleset: Ruleset) -> Redactor:
    return Redactor(ruleset, KEYS)


def test_every_rule_is_proved_by_an_example(ruleset: Ruleset) -> None:
    assert [rule.id for rule in ruleset.rules if not rule.matches] == []
    assert [field.id for field in ruleset.fields if not field.matches] == []


def test_every_example_is_masked_by_the_engine(ruleset: Ruleset, redactor: Redactor) -> None:
    missed = [
        (rule.id, template)
        for rule in ruleset.rules
        for template in rule.matches
        if not redactor.redact_text(expand(template)).redactions
    ]
    assert missed == []


def test_every_example_is_masked_inside_json(ruleset: Ruleset, redactor: Redactor) -> None:
    missed = [
        (rule.id, template)
        for rule in ruleset.rules
        for template in rule.matches
        if not redactor.redact_json(json.dumps({"out": [expand(template)]})).redactions
    ]
    assert missed == []


def test_every_field_example_is_masked_as_a_field(ruleset: Ruleset, redactor: Redactor) -> None:
    for field in ruleset.fields:
        for template in field.matches:
            name, _, value = expand(template).partition(": ")
            masked = json.loads(redactor.redact_json(json.dumps({name: value})).text)
            assert value not in masked[name], (field.id, template)


def test_a_rule_compiles_on_its_own_without_being_approximated(ruleset: Ruleset) -> None:
    too_large = []
    for rule in ruleset.rules:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            database.compile(expressions=[rule.pattern.encode()], elements=1, ids=[0], flags=[0])
        except hyperscan.error:
            too_large.append(rule.id)
    assert too_large == []


def test_secrets_and_ids_are_masked_and_people_hashed(ruleset: Ruleset) -> None:
    actions = {(entry.label, entry.action) for entry in (*ruleset.rules, *ruleset.fields)}
    for label in ("SECRET", "PASSWORD", "PRIVATE_KEY", "CARD", "NATIONAL_ID", "BIRTH_DATE", "IP"):
        assert (label, "mask") in actions
    for label in ("EMAIL", "NAME", "PHONE", "ADDRESS", "WALLET"):
        assert (label, "hash") in actions
    assert Counter(action for _, action in actions).keys() == {"mask", "hash"}


def test_what_stands_around_the_holes_of_an_example_is_no_key(ruleset: Ruleset) -> None:
    around = [
        (rule.id, run)
        for rule in ruleset.rules
        if rule.kind == "secret"
        for template in (*rule.matches, *rule.rejects)
        for run in re.findall(r"[A-Za-z0-9_-]{16,}", re.sub(r"\{\{.*?\}\}", " ", template))
        if opaque(run) and run != PYPI_PREFIX
    ]
    assert around == []


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "export API_KEY=${API_KEY}",
        "password: ********",
        "token=<token>",
        "secret = changeme-example",
        'password = os.environ["DB_PASSWORD"]',
        "token = get_token(client, settings.scope)",
        "cache_key=9f86d081884c7d659a2feaa0c55ad015",
        "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7",
        "session_id: 04075551-2368-4199-8123-456789012345",
        "call_Zk3jv9QpLmT2xWc8RbN5hYd1 and toolu_01A9bCdEfGhJkLmNpQrStUvW",
        "prompt_tokens: 90210, completion_tokens: 512",
        "at_millis 1735689600005 took 12",
        "git@github.com:org/repo.git",
        "logo@2x.png",
        "the access token is required for python3.11 and sha256",
        "fields = ['username', 'password', 'email', 'role']",
        "flight HAT039 on 2024-05-20 for 187 USD",
        "version 1.2.3-rc4 of us-east-1 at 12:30:45",
        "doi=10.1.1.110.6677",
        "password_reset_bot started token_refresh",
        "License: Apache-2.0",
        "public key: see docs/keys.md",
        "-----BEGIN PUBLIC KEY-----",
    ],
)
def test_placeholders_identifiers_and_prose_stay(redactor: Redactor, text: str) -> None:
    assert redactor.redact_text(text).text == text
    document = json.dumps({"content": text})
    assert redactor.redact_json(document).text == document


@pytest.mark.parametrize(
    "event",
    [
        {"trace_id": 2018678836144587, "span_id": "4bf92f3577b34da6"},
        {"sessionId": "04075551-2368-4199-8123-456789012345"},
        {"usage": {"input_tokens": 90210, "output_tokens": 512}},
        {"name": "search_flights", "city": "Austin", "date": "2024-05-20", "price": 187},
        {"next_token": "b2Zmc2V0PTEwMDAmc2VlZD03", "password_set": True, "token": None},
        {"properties": {"password": {"type": "string"}}, "required": ["password"]},
    ],
)
def test_fields_that_hold_no_secret_and_no_person_stay(
    redactor: Redactor, event: dict[str, object]
) -> None:
    document = json.dumps(event)
    assert redactor.redact_json(document).text == document


def test_a_person_in_fields_is_masked_and_the_booking_stays(redactor: Redactor) -> None:
    user = {
        "name": {"first_name": "Mia", "last_name": "Li"},
        "address": {"address1": "975 Sunset Drive", "address2": "Suite 217", "city": "Austin"},
        "email": "mia.li3818@example.com",
        "dob": "1990-04-05",
        "flights": [{"flight_number": "HAT039", "date": "2024-05-20", "price": 187}],
    }
    masked = redactor.redact_json(json.dumps(user)).text
    for gone in ("Mia", 'Li"', "975 Sunset Drive", "Suite 217", "mia.li3818", "1990-04-05"):
        assert gone not in masked
    assert json.loads(masked)["flights"] == user["flights"]


@pytest.mark.parametrize(
    "name",
    ["password", "contraseña", "Mot de passe", "Passwort", "senha", "пароль", "密码", "パスワード",
     "비밀번호", "كلمة المرور", "पासवर्ड", "hasło", "şifre"],
)  # fmt: skip
def test_a_password_field_is_known_in_many_languages(redactor: Redactor, name: str) -> None:
    masked = redactor.redact_json(json.dumps({name: "wren-4410-cobalt"}, ensure_ascii=False))
    assert json.loads(masked.text) == {name: "[PASSWORD]"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("first_name", "Ada"), ("Nachname", "Lovelace"), ("prénom", "Ada"), ("apellido", "Lovelace"),
     ("имя", "Ада"), ("姓名", "王小明"), ("이름", "김민수"), ("पहला_नाम", "राम"), ("الاسم", "محمد"),
     ("Straße", "Hauptstraße 5"), ("адрес", "ул. Мира, 5"), ("name_on_card", "A Lovelace")],
)  # fmt: skip
def test_names_and_addresses_are_known_in_many_languages(
    redactor: Redactor, name: str, value: str
) -> None:
    masked = redactor.redact_json(json.dumps({name: value}, ensure_ascii=False))
    assert value not in masked.text
