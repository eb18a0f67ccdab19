"""Checks that a matched text must pass: checksums and shapes, one small file each."""

from redactors.validators.table import DATA_VERSIONS, VALIDATORS, Validator, validator

__all__ = ["DATA_VERSIONS", "VALIDATORS", "Validator", "validator"]
