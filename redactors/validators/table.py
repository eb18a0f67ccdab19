"""The one table of validators: a rule names one, an unknown name raises."""

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Final

from redactors.validators import (
    bank,
    base58,
    client,
    cookie,
    crc32,
    documents,
    encoded,
    health,
    jwt,
    luhn,
    national,
    network,
    opaque,
    password,
    person,
    phone,
    real,
    token,
    wallet,
)

Validator = Callable[[str], bool]

VALIDATORS: Final[Mapping[str, Validator]] = {
    # secrets
    "base58check": base58.base58check,
    "base64-key": encoded.base64_key,
    "basic-auth": encoded.basic_auth,
    "basic-pair": encoded.decoded_pair,
    "client-id": client.client_id,
    "connection-password": password.connection_password,
    "cookie": cookie.cookie,
    "crc32-base62": crc32.crc32_base62_tail,
    "field-secret": password.field_secret,
    "given": real.given,
    "jwt": jwt.jwt,
    "jwt-base64": jwt.jwt_base64,
    "opaque": opaque.opaque,
    "password": password.password,
    "password-bare": password.password_bare,
    "phrase": password.phrase,
    "pin": password.pin,
    "real": real.real,
    "signs": password.signs,
    "token": token.token,
    "token-short": token.token_short,
    "userinfo": client.userinfo,
    "vendor-token": token.vendor_token,
    # money, wallets, networks, people
    "aba-routing": bank.aba_routing,
    "bic": bank.bic,
    "bitcoin": wallet.bitcoin,
    "card": luhn.card,
    "contact": person.contact,
    "ethereum": wallet.ethereum,
    "iban": bank.iban,
    "id-number": person.id_number,
    "ip-address": network.ip_address,
    "luhn": luhn.luhn,
    "mac": network.mac,
    "monero": base58.monero,
    "person-name": person.person_name,
    "phone": phone.phone,
    "postal-address": person.postal_address,
    "us-ssn-shape": person.us_ssn_shape,
    # national numbers
    "au-medicare": health.au_medicare,
    "au-tfn": documents.au_tfn,
    "de-document": documents.de_document,
    "de-svnr": documents.de_svnr,
    "es-nuss": documents.es_nuss,
    "gb-nino": documents.gb_nino,
    "gb-utr": documents.gb_utr,
    "gr-amka": documents.gr_amka,
    "hu-tin": documents.hu_tin,
    "icao-document": documents.icao_document,
    "ie-pps": documents.ie_pps,
    "iso-7064": documents.iso_7064,
    "lu-nin": documents.lu_nin,
    "lv-pk": documents.lv_pk,
    "pl-pesel": documents.pl_pesel,
    "se-coordination": documents.se_coordination,
    "sg-nric": documents.sg_nric,
    "us-dea": health.us_dea,
    "us-npi": health.us_npi,
    "verhoeff": documents.verhoeff,
    **{name: national.national(name) for name in national.MODULES},
}

# Part of every ruleset's digest: another version may judge a number otherwise.
DATA_VERSIONS: Final[Mapping[str, str]] = {"python-stdnum": metadata.version("python-stdnum")}


def validator(name: str) -> Validator:
    """The validator called `name`; raises ValueError that lists the known ones."""
    check = VALIDATORS.get(name)
    if check is None:
        raise ValueError(f"unknown validator {name!r}; known are {', '.join(sorted(VALIDATORS))}")

    def valid(text: str) -> bool:
        try:
            return check(text)
        except UnicodeEncodeError:  # half a surrogate pair, which JSON may hold
            return check(text.encode("utf-8", "replace").decode())

    return valid
