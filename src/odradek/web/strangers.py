"""Logs bytes that are not HTTP at most once a minute: a client with a wrong address reconnects every second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

AGAIN_AFTER_S = 60.0
# A Kafka request begins with its length. None is as long as 16 MiB before the client knows the broker.
_KAFKA, _TLS = b"\x00", b"\x16\x03"

logger = logging.getLogger(__name__)


class Strangers:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_at_s = 0.0

    def report(self, first_bytes: bytes, client: str, port: int) -> None:
        if self._clock() < self._next_at_s:
            return
        self._next_at_s = self._clock() + AGAIN_AFTER_S
        logger.warning(
            "port %d speaks HTTP, but %s sent something else%s. Repetitions are not logged for %.0f s",
            port,
            client,
            _guess(first_bytes),
            AGAIN_AFTER_S,
        )


def _guess(first_bytes: bytes) -> str:
    if first_bytes.startswith(_KAFKA):
        return ", probably a Kafka request: give this client the address of a broker's listener instead"
    if first_bytes.startswith(_TLS):
        return ", probably HTTPS: this port has no TLS"
    return ""
