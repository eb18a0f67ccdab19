"""What looks like a secret: opaque tokens, passwords and placeholders, told from words and code."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redactors.templates import ALPHABETS, expand
from redactors.validators import validator
from redactors.validators.entropy import entropy_bits
from redactors.validators.letters import wordlikeness

WORDS = """
    get_secret_value LibraryWebpageUploadUrlRowStatus marshmallow-code__marshmallow-1867 us-east-1
    claude-3-5-sonnet-20241022 gpt-4o-2024-08-06 python3.11 sha256 utf8mb4 refresh_the_token
    NobodyExpectsTheInquisition application/octet-stream settings.github_api_key v1beta1
    pydicom__pydicom-1458 environment-variable-name ModuleNotFoundError 2026-01-02T10:20:30Z
""".split()  # noqa: SIM905
PLACEHOLDERS = """
    ******** xxxxxxxxxxxx <token> <your-key> ${API_KEY} $TOKEN {{secret}} changeme changeme-example
    your_api_key_here YOUR-TOKEN EXAMPLEKEY %s %(password)s [REDACTED] null undefined password
    process.env.TOKEN os.environ["X"]
""".split()  # noqa: SIM905


@pytest.mark.parametrize("text", WORDS)
def test_words_dates_and_names_are_not_opaque(text: str) -> None:
    assert not validator("opaque")(text)


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_placeholders_are_not_real(text: str) -> None:
    for name in ("real", "opaque", "password", "field-secret"):
        assert not validator(name)(text), name


@pytest.mark.parametrize("alphabet", ["hex", "HEX", "base62", "base32", "alnum", "base64url"])
@settings(max_examples=200)
@given(data=st.data())
def test_random_tokens_are_opaque(alphabet: str, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 10**9))
    token = expand(f"{{{{{alphabet}:32}}}}" + " " * (seed % 50)).strip()
    assert validator("opaque")(token)


@pytest.mark.parametrize(
    "text", ["AB12-CD34-EF56-GH78", "1234567-ABC1234-XYZ5678-0123456", "{{uuid}}"]
)
def test_serials_and_uuids_are_opaque_beside_a_name(text: str) -> None:
    assert validator("token")(expand(text))


@pytest.mark.parametrize(
    "text",
    ["call_{{base62:24}}", "toolu_01{{base62:22}}", "req_{{base62:24}}", "sha256:{{hex:64}}",
     "/usr/lib/python3.12/site-packages/x86_64/a1b2c3"],
)  # fmt: skip
def test_identifiers_checksums_and_paths_are_no_tokens(text: str) -> None:
    assert not validator("token")(expand(text))


@pytest.mark.parametrize("text", ["hunter2!", "Winter_9xK2", "falcon.HmffaR27", "correct horse"])
def test_passwords_are_any_literal(text: str) -> None:
    assert validator("password")(text)


@pytest.mark.parametrize(
    "text",
    ["settings.db.password", "get_secret('a/b')", "self.password", "DB_PASSWORD", "user->pass",
     "https://host/reset", "/etc/secret/pass", "row[\"password\"]"],
)  # fmt: skip
def test_code_that_fetches_a_password_is_none(text: str) -> None:
    assert not validator("password")(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("user:hunter2", True),
        ("user:${PASS}", False),
        ("user:password", False),
        ("1000:1000", False),
    ],
)
def test_userinfo_needs_a_password(text: str, found: bool) -> None:
    assert validator("userinfo")(text) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("session={{base64url:24}}; theme=dark", True),
        ("lang=en; sessionid={{hex:12}}", True),
        ("lang=en; theme=dark", False),
        ("Path=/; Domain=example.org", False),
    ],
)
def test_a_cookie_is_a_secret_if_one_of_its_values_is(text: str, found: bool) -> None:
    assert validator("cookie")(expand(text)) is found


def test_a_token_whose_header_was_cut_is_still_a_token() -> None:
    head, claims, signature = expand("{{jwt}}").split(".")
    assert validator("jwt")(f"{head}.{claims}.{signature}")
    assert validator("jwt")(f"{head[:-3]}.{claims}.{signature}")
    assert not validator("jwt")("eyJub3RoaW5n.short")


def test_entropy_is_measured_in_bits_per_character() -> None:
    assert entropy_bits("") == entropy_bits("aaaa") == 0
    assert entropy_bits("ab") == 1
    assert entropy_bits("0123456789abcdef") == 4


@given(st.text(ALPHABETS["letters"], max_size=60))
def test_wordlikeness_ignores_case(text: str) -> None:
    assert wordlikeness(text.lower()) == wordlikeness(text.upper())


def test_words_are_likelier_than_chance() -> None:
    assert wordlikeness("configuration") > 0.5
    assert wordlikeness("qzxvkjwpfhgt") < -1
