"""Whether a broker accepts connections. Fails at once, where librdkafka would retry until its timeout."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread

from odradek.base.hosts import CONNECT_ERRORS
from odradek.client.addresses import Address

CONNECT_TIMEOUT_S = 3.0


def refusal(address: Address, within_s: float = CONNECT_TIMEOUT_S) -> str | None:
    """Why the address accepts no connection; None when it does."""
    try:
        socket.create_connection(address, within_s).close()
    except CONNECT_ERRORS as refused:
        return said_by(refused)
    return None


def said_by(refused: Exception) -> str:
    """Why an attempt to connect failed."""
    return getattr(refused, "strerror", None) or str(refused)


def refusals(addresses: Sequence[Address]) -> dict[Address, str]:
    """Why no address accepts a connection; empty when one of them does.

    Tries all addresses at once: one that does not answer takes until the timeout and must not delay the others.
    """
    answers: SimpleQueue[tuple[Address, str | None]] = SimpleQueue()

    def knock(address: Address) -> None:
        answers.put((address, refusal(address)))

    for address in addresses:
        Thread(target=knock, args=(address,), daemon=True).start()
    found = {}
    for _ in addresses:
        address, why = answers.get()
        if why is None:
            return {}
        found[address] = why
    return {address: found[address] for address in addresses}
