"""Counts every request of a listener, and reports the ends of the sampled requests.

A request is received, handled, perhaps parked, answered and sent. All requests are counted, by API and version, and so
are the errors in their replies. Reading the clock at each step costs more than that, so only some requests of an API
that gets many are measured: `on_end` is called once for each of them, with its sizes and the times that Kafka measures.
A listener that is not observed reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from odradek.server.network.request import Parts, RequestContext

OnRequest = Callable[[RequestContext], None]

MEASURED_PER_SECOND = 200
# After so many measured requests in a second, the distance between them doubles, then after a few more again and again.
MEASURED_BEFORE_DOUBLING = 50
MEASURED_BEFORE_DOUBLING_AGAIN = 10
# A larger distance follows only from the rate of a whole second.
DISTANCE_OF_BURSTS_MAX = 256
# By how much the distance falls at most from one second to the next, so that a client that pauses for a second and goes
# on does not have all its requests measured again.
FALLS_TO = 1 / 8


class ObservedApi:
    """One API: counts its requests, and chooses which of them are measured.

    All are measured while there are few. In a burst the distance between two measured requests doubles again and again,
    and `tick` adapts it to the rate. The distance varies, so that the choice does not follow a pattern of the client.
    """

    __slots__ = (
        "_counted",
        "_every",
        "_random",
        "_stands_for",
        "_until_doubled",
        "requests",
        "unanswered",
        "until_measured",
        "with_errors",
    )

    def __init__(self, last_version: int) -> None:
        # By version.
        self.requests = [0] * (last_version + 1)
        # Requests that wait for their reply, or whose connection was lost while they waited.
        self.unanswered = 0
        # Its replies with an error.
        self.with_errors = 0
        self.until_measured = 1
        self._every = 1
        self._stands_for = 1
        self._random = 1
        self._counted = 0
        # How many more are measured until the distance doubles.
        self._until_doubled = MEASURED_BEFORE_DOUBLING

    def take(self) -> int:
        """For how many requests the measured one stands."""
        stood_for = self._stands_for
        self._until_doubled -= 1
        if not self._until_doubled:
            self._until_doubled = MEASURED_BEFORE_DOUBLING_AGAIN
            if self._every < DISTANCE_OF_BURSTS_MAX:
                self._every *= 2
        if self._every > 1:
            self._random = (self._random * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
            self._stands_for = 1 + self._random % (2 * self._every - 1)
        else:
            self._stands_for = 1
        self.until_measured = self._stands_for
        return stood_for

    @property
    def total(self) -> int:
        return sum(self.requests)

    @property
    def without_error(self) -> int:
        """Its replies without any error: a difference, because most requests have one."""
        return self.total - self.unanswered - self.with_errors

    def tick(self, passed_s: float) -> None:
        """Called about once a second."""
        total = self.total
        by_rate = int((total - self._counted) / (MEASURED_PER_SECOND * passed_s))
        self._every = max(1, by_rate, int(self._every * FALLS_TO))
        # The next one was chosen when there were more requests.
        too_far = self.until_measured - (2 * self._every - 1)
        if too_far > 0:
            self.until_measured -= too_far
            self._stands_for -= too_far
        self._until_doubled = MEASURED_BEFORE_DOUBLING
        self._counted = total


class Observer:
    """`on_error` is called for each request whose reply has an error code, `on_end` for each that is measured."""

    __slots__ = ("_on_end", "_on_error", "apis", "now_ns")

    def __init__(
        self, apis: Mapping[int, ObservedApi], on_error: OnRequest, on_end: OnRequest, now_ns: Callable[[], int]
    ) -> None:
        # By key.
        self.apis = apis
        self._on_error = on_error
        self._on_end = on_end
        self.now_ns = now_ns

    @property
    def requests(self) -> int:
        """Since the start."""
        return sum(api.total for api in self.apis.values())

    def handled(self, request: RequestContext, parts: Parts | None) -> None:
        """Its handler returned, and it waits (None) or has an error."""
        if parts is None:
            self.apis[request.api.key].unanswered += 1
        else:
            self._count_errors(request)

    def answered_late(self, request: RequestContext) -> None:
        self.apis[request.api.key].unanswered -= 1
        self._count_errors(request)

    def _count_errors(self, request: RequestContext) -> None:
        if request.errors:
            self.apis[request.api.key].with_errors += 1
            self._on_error(request)

    def returned(self, request: RequestContext, parts: Parts | None) -> None:
        """The handler of a measured request returned: the reply, none (`[]`), or None if it has or had a slot."""
        request.returned_ns = now = self.now_ns()
        if parts is not None:
            request.answered_ns = now
            request.bytes_out = sum(map(len, parts))
            if not parts:
                self.ended(request, now)

    def answered(self, request: RequestContext, parts: Parts) -> None:
        """Its slot was filled, perhaps while its handler was still at work."""
        request.answered_ns = self.now_ns()
        request.bytes_out = sum(map(len, parts))

    def lost(self, request: RequestContext, parts: Parts | None) -> None:
        """Its connection was lost before the reply was sent."""
        if parts is None:
            self.answered(request, [])
        self.ended(request, self.now_ns())

    def ended(self, request: RequestContext, sending_ns: int) -> None:
        request.sending_ns = sending_ns
        request.ended_ns = self.now_ns()
        self._on_end(request)
