"""Detached signatures of rulesets: Ed25519 (RFC 8032) over what a ruleset's own files say.

What is signed is their canonical document: comments and layout may change, no rule may.  What a
ruleset extends is not in it; the built-in rules come with the package.
"""

import base64
import binascii
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from redactors.errors import RulesetError

SUFFIX = ".sig"
"""What a ruleset's name is followed by in the name of its signature's file."""


def signature_path(rules: Path) -> Path:
    """Where the signature of the ruleset at `rules` lies if nobody says otherwise."""
    return rules.absolute().with_name(rules.absolute().name + SUFFIX)


def sign(document: bytes, private_key: Path) -> str:
    """The signature of `document`, base64, under an Ed25519 key in an open PEM file (PKCS#8)."""
    try:
        key = load_pem_private_key(_read(private_key), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise RulesetError(
            "is no Ed25519 private key in PEM without a password", source=str(private_key)
        )
    return base64.b64encode(key.sign(document)).decode()


def check_signature(document: bytes, signature: Path, public_key: Path) -> None:
    """Raises RulesetError unless the file `signature` signs `document` under `public_key` (PEM)."""
    try:
        key = load_pem_public_key(_read(public_key))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise RulesetError("is no Ed25519 public key in PEM", source=str(public_key))
    try:
        key.verify(base64.b64decode(_read(signature), validate=False), document)
    except (InvalidSignature, binascii.Error):
        raise RulesetError(
            "is no signature of these rules under the given key", source=str(signature)
        ) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RulesetError(f"cannot be read: {error.strerror}", source=str(path)) from None
