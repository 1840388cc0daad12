"""Logs refused requests and bytes that are not HTTP, each at most once a minute: such clients retry every second."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

AGAIN_AFTER_S = 60.0
# A Kafka request begins with its length. None is as long as 16 MiB before the client knows the broker.
_KAFKA, _TLS = b"\x00", b"\x16\x03"
_METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"TRACE ")
# What a message of h11 quotes of the request may be a cookie.
_QUOTED = re.compile(r""":? (b|bytearray\(b)['"].*""", re.DOTALL)

logger = logging.getLogger(__name__)


class Strangers:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_at_s = 0.0
        self._next_refused_at_s = 0.0

    def report(self, first_bytes: bytes, client: str, port: int, why: str) -> None:
        """`why` is the message of h11."""
        if first_bytes.startswith(_METHODS):
            self._refused(client, port, why)
            return
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

    def _refused(self, client: str, port: int, why: str) -> None:
        if self._clock() < self._next_refused_at_s:
            return
        self._next_refused_at_s = self._clock() + AGAIN_AFTER_S
        logger.warning(
            "port %d refused an HTTP request of %s: %s. Further refusals are not logged for %.0f s",
            port,
            client,
            _QUOTED.sub("", why),
            AGAIN_AFTER_S,
        )


def _guess(first_bytes: bytes) -> str:
    if first_bytes.startswith(_KAFKA):
        return ", probably a Kafka request: give this client the address of a broker's listener instead"
    if first_bytes.startswith(_TLS):
        return ", probably HTTPS: this port has no TLS"
    return ""
