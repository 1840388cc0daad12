"""Parses broker addresses: `host`, `host:9092`, `[::1]:9092`, several separated by commas.

As librdkafka and its tools: a host without a port means port 9092, and empty parts are ignored. A host may have a
protocol in upper or lower case, as in `ssl://host:9093`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DEFAULT_PORT = 9092
_PORT_MAX = 65535
_PROTOCOL = re.compile(r"\b(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://", re.IGNORECASE)
_BRACKETED = re.compile(r"\[([^\[\]]+)\](?::(.*))?")


class BadAddress(ValueError):
    """Text that names no broker."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> list[Address]:
    found = [_parsed(part.strip()) for part in text.split(",") if part.strip()]
    if not found:
        raise BadAddress(f"{text!r} names no broker; write HOST:PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    return found


def protocols(text: str) -> set[str]:
    """The protocols in the addresses: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    return {name.upper() for name in _PROTOCOL.findall(text)}


def _parsed(text: str) -> Address:
    named = _PROTOCOL.match(text)
    rest = text[named.end() :] if named else text
    if "/" in rest:
        raise BadAddress(f"{text!r} is not HOST:PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    if bracketed := _BRACKETED.fullmatch(rest):
        host, port = bracketed[1], bracketed[2]
    elif rest.count(":") > 1:  # an IPv6 address without brackets has no port
        host, port = rest, None
    else:
        host, colon, after = rest.partition(":")
        port = after if colon else None
    if not host or re.search(r"[\[\]\s]", host):
        raise BadAddress(f"{text!r} is not HOST:PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    return Address(host, DEFAULT_PORT if port is None else _port(port, text))


def _port(digits: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", digits) or not 0 < int(digits) <= _PORT_MAX:
        raise BadAddress(f"{text!r}: a port is a number from 1 to {_PORT_MAX}, such as 127.0.0.1:{DEFAULT_PORT}")
    return int(digits)
