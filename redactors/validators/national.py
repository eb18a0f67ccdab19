"""National identity, tax and health numbers, checked by python-stdnum."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from redactors.validators.documents import compacted

# Name in rules -> module below `stdnum`; each has `is_valid`.
MODULES: Final[Mapping[str, str]] = {
    "ar-dni": "ar.dni",
    "ar-cuit": "ar.cuit",
    "at-vnr": "at.vnr",
    "be-nn": "be.nn",
    "be-bis": "be.bis",
    "bg-egn": "bg.egn",
    "br-cnpj": "br.cnpj",
    "br-cpf": "br.cpf",
    "ca-sin": "ca.sin",
    "ch-ssn": "ch.ssn",
    "cl-rut": "cl.rut",
    "cn-ric": "cn.ric",
    "co-nit": "co.nit",
    "cz-dic": "cz.dic",
    "cz-rc": "cz.rc",
    "de-idnr": "de.idnr",
    "dk-cpr": "dk.cpr",
    "ec-ci": "ec.ci",
    "ee-ik": "ee.ik",
    "es-dni": "es.dni",
    "es-nie": "es.nie",
    "es-cif": "es.cif",
    "fi-hetu": "fi.hetu",
    "fr-nif": "fr.nif",
    "fr-nir": "fr.nir",
    "gb-nhs": "gb.nhs",
    "gr-vat": "gr.vat",
    "hr-oib": "hr.oib",
    "il-idnr": "il.idnr",
    "in-aadhaar": "in_.aadhaar",
    "in-pan": "in_.pan",
    "is-kennitala": "is_.kennitala",
    "it-codicefiscale": "it.codicefiscale",
    "jp-in": "jp.in_",
    "kr-rrn": "kr.rrn",
    "lt-asmens": "lt.asmens",
    "mx-curp": "mx.curp",
    "my-nric": "my.nric",
    "nl-bsn": "nl.bsn",
    "no-fodselsnummer": "no.fodselsnummer",
    "nz-ird": "nz.ird",
    "pe-cui": "pe.cui",
    "pk-cnic": "pk.cnic",
    "pl-nip": "pl.nip",
    "pt-cc": "pt.cc",
    "pt-nif": "pt.nif",
    "ro-cnp": "ro.cnp",
    "ru-inn": "ru.inn",
    "se-personnummer": "se.personnummer",
    "si-ddv": "si.ddv",
    "si-emso": "si.emso",
    "sk-rc": "sk.rc",
    "th-pin": "th.pin",
    "tr-tckimlik": "tr.tckimlik",
    "ua-rntrc": "ua.rntrc",
    "us-itin": "us.itin",
    "us-ssn": "us.ssn",
    "za-idnr": "za.idnr",
}


def national(name: str) -> Callable[[str], bool]:
    """The check of number system `name`; its module is imported at the first call."""

    def valid(text: str) -> bool:
        module = import_module(f"stdnum.{MODULES[name]}")
        return bool(module.is_valid(text)) or bool(module.is_valid(compacted(text)))

    return valid
