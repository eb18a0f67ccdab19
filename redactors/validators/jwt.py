"""JSON Web Tokens (RFC 7519): the first part must be a JOSE header."""

import base64
import binascii
import json


def jwt(text: str) -> bool:
    """Whether the first dot-separated part decodes to a JSON object, or three long parts follow.

    A header that was altered or cut is still followed by claims and a signature.
    """
    head, *rest = text.split(".")
    if len(rest) >= 2 and len(rest[0]) >= 16 and len(rest[1]) >= 16:
        return True
    try:
        header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return False
    return isinstance(header, dict) and bool(header)


def jwt_base64(text: str) -> bool:
    """Whether `text` is the base64 of a JSON Web Token (its last characters may be missing)."""
    whole = text.rstrip("=")
    try:
        decoded = base64.b64decode(whole[: len(whole) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return False
    return jwt(decoded.decode("ascii", "replace"))
