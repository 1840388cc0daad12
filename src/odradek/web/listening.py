"""Sockets that HTTP servers listen on. Imports no HTTP: a node binds its port long before its first HTTP request."""

from __future__ import annotations

import socket


class CannotListen(OSError):
    """The address is taken, or not ours."""


def listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's delay off only where the protocol is named; else each answer may wait 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as refused:
        listener.close()
        raise CannotListen(
            refused.errno, f"cannot listen on {host}:{port}: {refused.strerror}. Name a free port, or 0 for any"
        ) from refused
    return listener
