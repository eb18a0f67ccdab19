"""Checksums: each takes numbers that are right and refuses them with one digit changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redactors.templates import expand
from redactors.validators import VALIDATORS, validator
from redactors.validators.crc32 import crc32_base62
from redactors.validators.keccak import keccak256
from redactors.validators.luhn import luhn_digit

RIGHT = {
    "aba-routing": ["021000021", "011401533"],
    "ar-cuit": ["20-05536168-2"],
    "at-vnr": ["1237010180", "1237-010180"],
    "au-medicare": ["2123 45670 1"],
    "au-tfn": ["123456782", "123-456-782"],
    "be-nn": ["85.07.30-033.28"],
    "bg-egn": ["7523169263"],
    "bic": ["DEUTDEFF500"],
    "bitcoin": ["{{bitcoin}}"],
    "br-cnpj": ["16.727.230/0001-97"],
    "br-cpf": ["231.002.999-81"],
    "ca-sin": ["123-456-782"],
    "card": ["{{luhn:16:4}}", "4111 1111 1111 1111", "3782 822463 10005"],
    "ch-ssn": ["756.9217.0769.85"],
    "cl-rut": ["12.531.909-2"],
    "de-idnr": ["36 574 261 809"],
    "de-svnr": ["15 070649 C103"],
    "ee-ik": ["36805280109"],
    "es-dni": ["54362315K"],
    "es-nuss": ["281234567840"],
    "ethereum": ["{{ethereum}}"],
    "fi-hetu": ["131052-308T"],
    "fr-nif": ["30 23 217 600 053"],
    "fr-nir": ["2 95 10 99 126 111 93"],
    "gb-nhs": ["943 476 5919"],
    "gb-utr": ["1955839661"],
    "gr-amka": ["01013099997"],
    "gr-vat": ["094259216"],
    "hr-oib": ["33392005961"],
    "hu-tin": ["8234567896"],
    "iban": ["{{iban:DE}}", "{{iban:FR}}", "{{iban:GB}}"],
    "icao-document": ["XR1001R58"],
    "ie-pps": ["6433435F"],
    "in-pan": ["ACUPA7085R"],
    "it-codicefiscale": ["RCCMNL83S18D969H"],
    "lt-asmens": ["33309240064"],
    "lu-nin": ["1990093012358"],
    "luhn": ["{{luhn:12:9}}"],
    "lv-pk": ["161175-19997"],
    "monero": ["{{monero}}"],
    "mx-curp": ["BOXW310820HNERXN09"],
    "nl-bsn": ["111222333"],
    "pl-nip": ["856-734-62-15"],
    "pl-pesel": ["44051401359"],
    "pt-nif": ["501964843"],
    "ro-cnp": ["1630615123457"],
    "se-coordination": ["701063-2391"],
    "se-personnummer": ["880320-0016"],
    "sg-nric": ["S6859080I"],
    "si-emso": ["0101006500006"],
    "tr-tckimlik": ["17291716060"],
    "us-dea": ["AB1234563"],
    "us-npi": ["1234567893"],
    "verhoeff": ["234123412346"],
    "za-idnr": ["7503305044089"],
}
DIGIT_CHECKED = sorted(set(RIGHT) - {"bic", "ethereum", "in-pan"})


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_number_passes(name: str) -> None:
    for template in RIGHT[name]:
        assert validator(name)(expand(template)), template


@pytest.mark.parametrize("name", DIGIT_CHECKED)
def test_most_numbers_with_one_digit_changed_fail(name: str) -> None:
    for template in RIGHT[name]:
        text = expand(template)
        places = [at for at, c in enumerate(text) if c.isdigit()]
        changed = [f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}" for at in places]
        passed = sum(validator(name)(each) for each in changed)
        assert passed <= len(changed) // 5, template


@pytest.mark.parametrize("name", sorted(VALIDATORS))
@given(text=st.text(st.characters(exclude_categories=()), max_size=40))
def test_no_validator_fails_on_any_text(name: str, text: str) -> None:
    assert isinstance(validator(name)(text), bool)


@given(st.text("0123456789", min_size=1, max_size=30))
def test_the_luhn_digit_is_the_one_that_passes(digits: str) -> None:
    passing = [c for c in "0123456789" if validator("luhn")(digits + c)]
    assert not any(int(d) for d in digits) or passing == [luhn_digit(digits)]


@pytest.mark.parametrize("name", sorted(VALIDATORS))
def test_half_a_surrogate_pair_is_no_reason_to_fail(name: str) -> None:
    assert isinstance(validator(name)("\ud800abc12345"), bool)


def test_an_unknown_validator_raises_and_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown validator 'lunh'; known are .*luhn"):
        validator("lunh")


def test_keccak_is_the_one_before_the_standard() -> None:
    assert keccak256(b"").hex().startswith("c5d2460186f7233c927e7db2dcc703c0")
    assert keccak256(b"a" * 200) != keccak256(b"a" * 201)


def test_a_token_ends_in_the_checksum_of_its_body() -> None:
    body = "x9Tq2LmWc7RvB4nKd8JpF3sHy6Za01"
    assert validator("crc32-base62")("ghp_" + body + crc32_base62(body))
    assert not validator("crc32-base62")("ghp_" + body + "000000")


@pytest.mark.parametrize(
    "text",
    [
        "2018678836144587",  # no issuer
        "41111111-1111-1111-1",  # grouped as no card is
        "4111 1111-1111 1111",  # two separators
        "0000000000000000",
    ],
)
def test_what_is_grouped_or_issued_as_no_card_is_none(text: str) -> None:
    assert not validator("card")(text)


@pytest.mark.parametrize("text", ["127.0.0.1", "0.0.0.0", "255.255.255.0", "2::4", "1.2.3.400"])
def test_addresses_of_no_host_are_left_alone(text: str) -> None:
    assert not validator("ip-address")(text)


@pytest.mark.parametrize("text", ["203.0.113.7", "10.1.2.3", "2001:db8::8a2e:370:7334"])
def test_addresses_of_hosts_are_known(text: str) -> None:
    assert validator("ip-address")(text)
