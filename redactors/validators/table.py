"""The one table of validators: a rule names one, an unknown name raises."""

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Final

from redactors.validators import documents, health
from redactors.validators.bank import aba_routing, bic, iban
from redactors.validators.base58 import base58check, monero
from redactors.validators.client import basic_pair, client_id, curl_user, userinfo
from redactors.validators.cookie import cookie
from redactors.validators.crc32 import crc32_base62_tail
from redactors.validators.encoded import base64_key, basic_auth
from redactors.validators.jwt import jwt, jwt_base64
from redactors.validators.luhn import card, luhn
from redactors.validators.national import MODULES, national
from redactors.validators.network import ip_address, mac
from redactors.validators.opaque import opaque
from redactors.validators.password import (
    connection_password,
    field_secret,
    password,
    password_bare,
    pin,
)
from redactors.validators.person import (
    contact,
    id_number,
    person_name,
    postal_address,
    us_ssn_shape,
)
from redactors.validators.phone import phone
from redactors.validators.real import real
from redactors.validators.token import token, token_short, vendor_token
from redactors.validators.wallet import bitcoin, ethereum

Validator = Callable[[str], bool]

VALIDATORS: Final[Mapping[str, Validator]] = {
    "aba-routing": aba_routing,
    "base64-key": base64_key,
    "base58check": base58check,
    "bitcoin": bitcoin,
    "connection-password": connection_password,
    "ethereum": ethereum,
    "jwt-base64": jwt_base64,
    "monero": monero,
    "token-short": token_short,
    "basic-pair": basic_pair,
    "client-id": client_id,
    "curl-user": curl_user,
    "userinfo": userinfo,
    "vendor-token": vendor_token,
    "basic-auth": basic_auth,
    "bic": bic,
    "card": card,
    "cookie": cookie,
    "crc32-base62": crc32_base62_tail,
    "contact": contact,
    "field-secret": field_secret,
    "iban": iban,
    "id-number": id_number,
    "ip-address": ip_address,
    "jwt": jwt,
    "luhn": luhn,
    "mac": mac,
    "pin": pin,
    "opaque": opaque,
    "password": password,
    "password-bare": password_bare,
    "person-name": person_name,
    "phone": phone,
    "postal-address": postal_address,
    "real": real,
    "token": token,
    "us-ssn-shape": us_ssn_shape,
    "au-medicare": health.au_medicare,
    "us-dea": health.us_dea,
    "us-npi": health.us_npi,
    "au-tfn": documents.au_tfn,
    "de-document": documents.de_document,
    "de-svnr": documents.de_svnr,
    "es-nuss": documents.es_nuss,
    "gb-nino": documents.gb_nino,
    "gb-utr": documents.gb_utr,
    "gr-amka": documents.gr_amka,
    "hu-tin": documents.hu_tin,
    "ie-pps": documents.ie_pps,
    "icao-document": documents.icao_document,
    "iso-7064": documents.iso_7064,
    "lu-nin": documents.lu_nin,
    "lv-pk": documents.lv_pk,
    "pl-pesel": documents.pl_pesel,
    "se-coordination": documents.se_coordination,
    "sg-nric": documents.sg_nric,
    "verhoeff": documents.verhoeff,
    **{name: national(name) for name in MODULES},
}

# Part of every ruleset's digest: another version may judge a number otherwise.
DATA_VERSIONS: Final[Mapping[str, str]] = {"python-stdnum": metadata.version("python-stdnum")}


def validator(name: str) -> Validator:
    """The validator called `name`; raises ValueError that lists the known ones."""
    found = VALIDATORS.get(name)
    if found is None:
        raise ValueError(f"unknown validator {name!r}; known are {', '.join(sorted(VALIDATORS))}")
    return found
