"""Request metrics by API: exact counts of requests and errors; times and sizes of the sampled requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odradek.base.errors import ErrorCode
from odradek.monitor.catalogue import requests as catalogue
from odradek.monitor.instruments import Counter, Distribution
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Registry
from odradek.server.api.p01_fetch import API as FETCH
from odradek.server.api.p01_fetch import FOLLOWER_API
from odradek.server.network.life_cycle import ObservedApi, Observer
from odradek.server.network.request import Api, FrameApi, RequestContext

FRAME_NAMES = ("Produce", "Fetch")
FETCH_CONSUMER, FETCH_FOLLOWER = "FetchConsumer", "FetchFollower"


class Times:
    """The times and sizes of the requests of one name."""

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_local",
        "_queue",
        "_remote",
        "_reply_queue",
        "_send",
        "_throttle",
        "_total",
    )

    def __init__(self, registry: Registry, name: str, requests: Sequence[Counter]) -> None:
        def distribution(metric: Metric) -> Distribution:
            return registry.distribution(metric, name, counted=lambda: sum(each.count for each in requests))

        self._total = distribution(catalogue.TOTAL_TIME)
        self._queue = distribution(catalogue.QUEUE_TIME)
        self._local = distribution(catalogue.LOCAL_TIME)
        self._remote = distribution(catalogue.REMOTE_TIME)
        self._throttle = distribution(catalogue.THROTTLE_TIME)
        self._reply_queue = distribution(catalogue.RESPONSE_QUEUE_TIME)
        self._send = distribution(catalogue.SEND_TIME)
        self._bytes_in = distribution(catalogue.REQUEST_BYTES)
        self._bytes_out = distribution(catalogue.RESPONSE_BYTES)

    def ended(self, request: RequestContext) -> None:
        stands_for = request.stands_for
        self._total.observe(request.total_ns, stands_for)
        self._queue.observe(request.queue_ns, stands_for)
        self._local.observe(request.local_ns, stands_for)
        self._remote.observe(request.remote_ns, stands_for)
        self._throttle.observe(0, stands_for)
        self._reply_queue.observe(request.reply_queue_ns, stands_for)
        self._send.observe(request.send_ns, stands_for)
        self._bytes_in.observe(request.bytes_in, stands_for)
        self._bytes_out.observe(request.bytes_out, stands_for)


class RequestMetrics:
    """The request metrics of all listeners of a node."""

    def __init__(self, registry: Registry, now_ns: Callable[[], int]) -> None:
        self._registry = registry
        self._now_ns = now_ns
        self._observed: list[ObservedApi] = []
        # By name and version.
        self._requests: dict[str, dict[int, Counter]] = {}
        self._times: dict[str, Times] = {}
        self._errors: dict[tuple[str, int], Counter] = {}
        # The handler of Fetch adds to these, by version.
        self.consumer_fetches = self._counters(FETCH_CONSUMER, FETCH.versions)
        self.follower_fetches = self._counters(FETCH_FOLLOWER, FETCH.versions)

    def observer(self, apis: Mapping[int, Api | FrameApi]) -> Observer:
        """For a listener that serves these APIs."""
        observed = {
            key: ObservedApi(
                self._counters(name_of(api), api.versions),
                self._registry.counter(catalogue.ERRORS, name_of(api), ErrorCode.NONE.name),
            )
            for key, api in apis.items()
        }
        self._observed += observed.values()
        for api in apis.values():
            self._times_of(name_of(api))
        if FETCH.key in apis:
            for name in (FETCH_CONSUMER, FETCH_FOLLOWER):
                self._times_of(name)
        return Observer(observed, self._has_errors, self._ended, self._now_ns)

    def tick(self, passed_s: float) -> None:
        """Called about once a second, to adapt how many requests are measured."""
        for api in self._observed:
            api.tick(passed_s)

    def _counters(self, name: str, versions: tuple[int, int]) -> list[Counter]:
        by_version = self._requests.setdefault(name, {})
        first, last = versions
        for version in range(first, last + 1):
            by_version[version] = self._registry.counter(catalogue.REQUESTS, name, str(version))
        return [by_version.get(version, Counter()) for version in range(last + 1)]

    def _has_errors(self, request: RequestContext) -> None:
        name = name_of(request.api)
        for code in request.errors:
            counter = self._errors.get((name, code))
            if counter is None:
                counter = self._registry.counter(catalogue.ERRORS, name, ErrorCode(code).name)
                self._errors[name, code] = counter
            counter.count += 1

    def _ended(self, request: RequestContext) -> None:
        api = request.api
        self._times_of(name_of(api)).ended(request)
        if api is FOLLOWER_API:
            self._times_of(FETCH_FOLLOWER).ended(request)
        elif api is FETCH:
            self._times_of(FETCH_CONSUMER).ended(request)

    def _times_of(self, name: str) -> Times:
        known = self._times.get(name)
        if known is None:
            known = self._times[name] = Times(self._registry, name, tuple(self._requests[name].values()))
        return known


def name_of(api: Api | FrameApi) -> str:
    """Kafka's name of an API."""
    if isinstance(api, FrameApi):
        return FRAME_NAMES[api.key]
    return api.request.__name__.removesuffix("Request")
