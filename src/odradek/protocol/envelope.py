"""What an Envelope carries besides the request: whose it is and from where, in Kafka's bytes.

A principal is `User:alice` for us; Kafka writes its type and its name behind the version of their table. A host is an
address of 4 or 16 bytes.
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
        raise MalformedMessage("a principal of a version that nobody knows")
    principal = DefaultPrincipalData.decode(data, PRINCIPAL_VERSION, 2)
    return f"{principal.type}:{principal.name}"


def encode_address(host: str) -> bytes:
    """Zeros for a host that is no address, as that of a client in the same process."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return NO_ADDRESS


def decode_address(data: bytes) -> str:
    try:
        return str(ipaddress.ip_address(data))
    except ValueError as broken:
        raise MalformedMessage(f"an address of {len(data)} bytes") from broken
