"""Reports the end of every request to the observer of a listener: metrics, quotas, an audit log.

A request is received, handled, perhaps parked, answered and sent. However it goes, `on_end` is called once: with its
API, version, principal, client id, sizes, error codes and the times that Kafka measures. A listener that is not
observed reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.server.network.request import Parts, RequestContext, bytes_of

OnEnd = Callable[[RequestContext], None]


class Observer:
    __slots__ = ("_on_end", "now_ns")

    def __init__(self, on_end: OnEnd, now_ns: Callable[[], int]) -> None:
        self._on_end = on_end
        self.now_ns = now_ns

    def returned(
        self, request: RequestContext, bytes_in: int, received_ns: int, handled_ns: int, parts: Parts | None
    ) -> None:
        """Its handler returned: the reply, none (`[]`), or None when a slot was or will be filled."""
        request.bytes_in = bytes_in
        request.received_ns = received_ns
        request.handled_ns = handled_ns
        request.returned_ns = now = self.now_ns()
        if parts is not None:
            request.answered_ns = now
            request.bytes_out = bytes_of(parts)
            if not parts:
                self.ended(request)

    def answered(self, request: RequestContext, parts: Parts) -> None:
        """Its slot was filled, perhaps while its handler was still at work."""
        request.answered_ns = self.now_ns()
        request.bytes_out = bytes_of(parts)

    def lost(self, request: RequestContext, parts: Parts | None) -> None:
        """Its connection was lost before the reply was sent."""
        if parts is None:
            self.answered(request, [])
        self.ended(request)

    def ended(self, request: RequestContext) -> None:
        request.ended_ns = self.now_ns()
        self._on_end(request)
