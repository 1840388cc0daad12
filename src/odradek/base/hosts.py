"""Hosts of addresses: which texts cannot be one, and how an attempt to connect fails.

A node that accepts such a host into its config or the cluster's metadata gives it to all others, who can never connect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from odradek.base.errors import ErrorCode, KafkaError

# What an attempt to connect raises. Beside OSError: ValueError for a host that is no host name (UnicodeError is one) or
# has a NUL byte, and OverflowError for a port above 65535. Hosts and ports that other nodes send can be anything.
CONNECT_ERRORS = (OSError, ValueError, OverflowError)

HOST_CHARACTERS_MAX = 253
_LABEL_BYTES_MAX = 63


class HasHost(Protocol):
    @property
    def host(self) -> str: ...


def host_problem(host: str) -> str | None:
    """Why no attempt to connect to this host can succeed; None if it may be a host name or an IP address."""
    if not host:
        return "it is empty"
    if len(host) > HOST_CHARACTERS_MAX:
        return f"it has {len(host)} characters, {HOST_CHARACTERS_MAX} are allowed"
    try:
        # As resolvers do it. The codec costs much to import, so it is used only where it is needed.
        name = host.encode("ascii" if host.isascii() else "idna")
    except UnicodeError as wrong:
        return f"it is not an internationalized domain name ({wrong})"
    if any(byte <= 0x20 or byte == 0x7F for byte in name):
        return "it contains a space or a control character"
    labels = name.removesuffix(b".").split(b".")
    if not all(labels):
        return "it has nothing before, after or between its dots"
    if max(map(len, labels)) > _LABEL_BYTES_MAX:
        return f"it has more than {_LABEL_BYTES_MAX} characters without a dot"
    return None


def require_hosts(endpoints: Iterable[HasHost], code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
    """Raises KafkaError when an endpoint has a host that no node can connect to."""
    for endpoint in endpoints:
        problem = host_problem(endpoint.host)
        if problem is not None:
            raise KafkaError(code, f"{endpoint.host[:HOST_CHARACTERS_MAX]!r} cannot be the host of a node: {problem}.")
