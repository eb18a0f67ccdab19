"""Example templates: the same text every time, and no key in any file."""

import re

import pytest

from redactors.templates import expand
from redactors.validators import validator


def test_a_template_gives_the_same_text_every_time() -> None:
    assert expand("key={{base62:40}}") == expand("key={{base62:40}}")


def test_different_templates_give_different_texts() -> None:
    assert expand("a{{hex:32}}")[1:] != expand("b{{hex:32}}")[1:]


def test_holes_have_the_alphabet_and_size_they_name() -> None:
    assert re.fullmatch(r"x[0-9a-f]{40}y", expand("x{{hex:40}}y"))
    assert re.fullmatch(r"[A-Z]{16}-\d{9}", expand("{{upper:16}}-{{digits:9}}"))


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{github:ghp_}}", "crc32-base62"),
        ("{{luhn:16:4}}", "card"),
        ("{{luhn:15:37}}", "card"),
        ("{{iban:DE}}", "iban"),
        ("{{iban:GB}}", "iban"),
        ("{{jwt}}", "jwt"),
        ("{{jwtbase64}}", "jwt-base64"),
        ("{{wif}}", "base58check"),
        ("{{bitcoin}}", "bitcoin"),
        ("{{ethereum}}", "ethereum"),
        ("{{monero}}", "monero"),
        ("{{base64of:ada:secret12}}", "basic-pair"),
    ],
)
def test_checksums_of_templates_are_right(template: str, name: str) -> None:
    assert validator(name)(expand(template))


def test_a_private_key_template_is_a_block_of_lines() -> None:
    lines = expand("{{pem:RSA}}").splitlines()
    assert lines[0].startswith("-----BEGIN RSA")
    assert lines[-1].startswith("-----END RSA")
    assert all(len(line) <= 64 for line in lines[1:-1])


@pytest.mark.parametrize("template", ["{{nothing:3}}", "{{hex}}", "{{hex:many}}"])
def test_a_hole_nobody_knows_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="template hole"):
        expand(template)
