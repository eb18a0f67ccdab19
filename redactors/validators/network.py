"""Network addresses."""

import ipaddress


def ip_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address of a host: not loopback, unspecified, a mask.

    `2::4` is valid too, but is a slice or a path of names in source code.
    """
    if ":" in text and len(text.partition(":")[0]) < 3 and text.count(":") < 4:
        return False
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    unowned = address.is_loopback or address.is_unspecified or address.is_multicast
    return not unowned and not text.startswith("255.")


def mac(text: str) -> bool:
    """Whether `text` is a hardware address of a device: not all zeros, not the broadcast one."""
    digits = {c for c in text.lower() if c.isalnum()}
    return len(digits) > 1 and sum(c.isalnum() for c in text) == 12
