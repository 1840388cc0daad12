"""The principal and the client address of an Envelope, in Kafka's encoding.

A principal is `User:alice` here. Kafka encodes it as version, type and name. A host is an address of 4 or 16 bytes.
"""

from __future__ import annotations

import ipaddress

from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.forwarded_principal import DefaultPrincipalData

PRINCIPAL_VERSION = 0
_VERSION_PREFIX = PRINCIPAL_VERSION.to_bytes(2, "big")
NO_ADDRESS = bytes(4)


def encode_principal(principal: str) -> bytes:
    kind, _, name = principal.partition(":")
    return _VERSION_PREFIX + DefaultPrincipalData(type=kind, name=name).encode(PRINCIPAL_VERSION)


def decode_principal(data: bytes | None) -> str:
    if data is None or data[:2] != _VERSION_PREFIX:
        raise MalformedMessage("the principal has an unknown version")
    principal = DefaultPrincipalData.decode(data, PRINCIPAL_VERSION, 2)
    return f"{principal.type}:{principal.name}"


def encode_address(host: str) -> bytes:
    """Zeros for a host that is not an IP address, such as that of a client in the same process."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return NO_ADDRESS


def decode_address(data: bytes) -> str:
    try:
        return str(ipaddress.ip_address(data))
    except ValueError as broken:
        raise MalformedMessage(f"an address must have 4 or 16 bytes, not {len(data)}") from broken
