"""Request metrics by API: exact counts of requests and errors; times and sizes of the sampled requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from odradek.base.errors import ErrorCode, error_code
from odradek.monitor.catalogue import requests as catalogue
from odradek.monitor.instruments import Counter, Distribution
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Registry
from odradek.server.api.p01_fetch import API as FETCH
from odradek.server.api.p01_fetch import FOLLOWER_API
from odradek.server.network.life_cycle import ObservedApi, Observer
from odradek.server.network.request import Api, FrameApi, RequestContext
from odradek.server.tally import FETCH_FOLLOWER

FRAME_NAMES = ("Produce", "Fetch")
FETCH_CONSUMER = "FetchConsumer"


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

    def __init__(self, registry: Registry, name: str, requests: Callable[[], int]) -> None:
        def distribution(metric: Metric) -> Distribution:
            return registry.distribution(metric, name, counted=requests)

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
        # By name, on each listener.
        self._observed: dict[str, list[ObservedApi]] = {}
        self._times: dict[str, Times] = {}
        self._errors: dict[tuple[str, int], Counter] = {}

    def observer(self, apis: Mapping[int, Api | FrameApi]) -> Observer:
        """For a listener that serves these APIs."""
        observed = {key: self._observe(api) for key, api in apis.items()}
        if apis.get(FETCH.key) is FETCH:
            self._divide_fetches(observed[FETCH.key])
        return Observer(observed, self._has_errors, self._ended, self._now_ns)

    def tick(self, passed_s: float) -> None:
        """Called about once a second, to adapt how many requests are measured."""
        for apis in self._observed.values():
            for api in apis:
                api.tick(passed_s)

    def _observe(self, api: Api | FrameApi) -> ObservedApi:
        name, (first, last) = name_of(api), api.versions
        observed = ObservedApi(last)
        listeners = self._observed.setdefault(name, [])
        listeners.append(observed)

        def requests(version: int) -> int:
            return sum(sum(each.requests[version : version + 1]) for each in listeners)

        for version in range(first, last + 1):
            self._registry.counted(catalogue.REQUESTS, partial(requests, version), name, str(version))
        self._registry.counted(
            catalogue.ERRORS, lambda: sum(each.without_error for each in listeners), name, ErrorCode.NONE.name
        )
        if name not in self._times:
            self._times[name] = Times(self._registry, name, lambda: sum(each.total for each in listeners))
        return observed

    def _divide_fetches(self, fetches: ObservedApi) -> None:
        """The handler counts those of followers; all others came from consumers."""
        first, last = FETCH.versions
        by_followers = {
            version: self._registry.counter(catalogue.REQUESTS, FETCH_FOLLOWER, str(version))
            for version in range(first, last + 1)
        }

        def by_consumers(version: int) -> int:
            return fetches.requests[version] - by_followers[version].count

        for version in by_followers:
            self._registry.counted(catalogue.REQUESTS, partial(by_consumers, version), FETCH_CONSUMER, str(version))
        counts: dict[str, Callable[[], int]] = {
            FETCH_CONSUMER: lambda: sum(map(by_consumers, by_followers)),
            FETCH_FOLLOWER: lambda: sum(each.count for each in by_followers.values()),
        }
        for name, count in counts.items():
            self._times[name] = Times(self._registry, name, count)

    def _has_errors(self, request: RequestContext) -> None:
        name = name_of(request.api)
        for code in request.errors:
            counter = self._errors.get((name, code))
            if counter is None:
                counter = self._registry.counter(catalogue.ERRORS, name, error_code(code).name)
                self._errors[name, code] = counter
            counter.count += 1

    def _ended(self, request: RequestContext) -> None:
        api = request.api
        self._times[name_of(api)].ended(request)
        if api is FOLLOWER_API:
            self._times[FETCH_FOLLOWER].ended(request)
        elif api is FETCH:
            self._times[FETCH_CONSUMER].ended(request)


def name_of(api: Api | FrameApi) -> str:
    """Kafka's name of an API."""
    if isinstance(api, FrameApi):
        return FRAME_NAMES[api.key]
    return api.request.__name__.removesuffix("Request")
