"""Sockets that HTTP servers listen on. Imports no HTTP: a node binds its port long before its first HTTP request."""

from __future__ import annotations

import socket


class CannotListen(OSError):
    """The address is in use, or not an address of this machine."""


def listening(host: str, port: int, remedy: str = "Choose a free port, or 0 for any") -> socket.socket:
    """`remedy` names the option that changes the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given; otherwise a response may wait 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as refused:
        listener.close()
        raise CannotListen(refused.errno, f"cannot listen on {host}:{port}: {refused.strerror}. {remedy}") from refused
    return listener
