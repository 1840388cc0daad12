"""Finds free ports of this machine."""

from __future__ import annotations

import errno
import socket

from odradek.node.listeners import Endpoint

_PORT_MAX = 65535


class PortTaken(OSError):
    pass


def free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(where: Endpoint) -> bool:
    if not 0 < where.port <= _PORT_MAX:
        return False
    try:
        require_free(where)
    except PortTaken:
        return False
    return True


def require_free(where: Endpoint, remedy: str = "choose another port") -> None:
    """Checked before anything is written: a node that cannot listen must leave no files behind.

    `remedy` names the option that changes the port.
    """
    try:
        families = socket.getaddrinfo(where.host or None, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        with socket.socket(families[0][0]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(families[0][4])
    except socket.gaierror as unknown:
        raise OSError(f"{where.host} is not an address of this machine: {unknown.strerror}") from unknown
    except OSError as refused:
        told = f"cannot listen on {where}: {refused.strerror}"
        if refused.errno == errno.EADDRINUSE:
            raise PortTaken(f"{told}; stop the process that listens there, or {remedy}") from refused
        raise OSError(f"{told}; choose another address") from refused
