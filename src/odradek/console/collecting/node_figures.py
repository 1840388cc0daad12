"""Reads figures of nodes over their HTTP, where it can be reached: traffic, memory, CPU, version."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from odradek.base.errors import ErrorCode
from odradek.base.limits import MIB
from odradek.client.wire import NoAnswer
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.snapshot import Broker, NodeFigures
from odradek.protocol.messages.p32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

ANSWER_S = 2.0
ANSWER_BYTES_MAX = 16 * MIB
AT_ONCE_MAX = 8
# The default port of a node's HTTP is that of its first listener plus this.
PORT_DISTANCE = 552
PORT_MAX = 65535
BROKER_RESOURCE = 4
HTTP_LISTENER = "http.listener"
FIND_AGAIN_S = 30.0


def _mbean(kind: str, name: str) -> str:
    return f"kafka.server:type={kind},name={name}"


_READ = (
    _mbean("BrokerTopicMetrics", "BytesInPerSec"),
    _mbean("BrokerTopicMetrics", "BytesOutPerSec"),
    "java.lang:type=Runtime",
    "odradek.process:type=Memory",
)


class NodeUnreachable(Exception):
    """The node's HTTP gives no usable answer."""


def jolokia(url: str, requests: object, within_s: float = ANSWER_S) -> object:
    """The answers to Jolokia requests. Raises NodeUnreachable."""
    body = json.dumps(requests).encode()
    asked = urllib.request.Request(f"{url}/jolokia", body, {"content-type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=within_s) as answer:  # noqa: S310 - http and https only
            return json.loads(answer.read(ANSWER_BYTES_MAX))
    except (OSError, ValueError, http.client.HTTPException) as failed:
        raise NodeUnreachable(f"{url} does not answer: {failed}") from failed


class NodeReader:
    def __init__(self, cluster: Cluster, given: Mapping[int, str]) -> None:
        self._cluster = cluster
        self._given = given
        self._urls: dict[int, str | None] = {}
        self._find_again_s = 0.0
        self._traffic: dict[int, tuple[float, NodeFigures]] = {}
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="odradek-console-node")

    def url(self, broker_id: int) -> str | None:
        return self._given.get(broker_id) or self._urls.get(broker_id)

    def read(self, brokers: Sequence[Broker]) -> list[Broker]:
        now_s = time.monotonic()
        if now_s >= self._find_again_s:
            self._find_again_s = now_s + FIND_AGAIN_S
            self._urls.clear()
        wanted = [each for each in brokers if each.problem is None]
        found = dict(zip((each.broker_id for each in wanted), self._pool.map(self._one, wanted), strict=True))
        return [self._with_rates(each, found.get(each.broker_id)) for each in brokers]

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _one(self, broker: Broker) -> NodeFigures | None:
        if broker.broker_id not in self._urls:
            self._urls[broker.broker_id] = self._given.get(broker.broker_id) or self._default_url(broker)
        url = self._urls[broker.broker_id]
        if url is None:
            return None
        try:
            return _figures(url)
        except NodeUnreachable:
            return None

    def _default_url(self, broker: Broker) -> str | None:
        """From the broker's config `http.listener`, which only Odradek has."""
        asked = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(broker.broker_id), configuration_keys=[HTTP_LISTENER]
        )
        try:
            response = self._cluster.at(
                broker.broker_id, DescribeConfigsRequest(resources=[asked]), DescribeConfigsResponse
            )
        except NoAnswer:
            return None
        [result] = response.results
        config = next((each for each in result.configs if each.name == HTTP_LISTENER), None)
        if result.error_code != ErrorCode.NONE or config is None or config.value == "":
            return None
        if config.value is not None:
            host, _, port = config.value.rpartition(":")
            return f"http://{broker.host if host in ('', '0.0.0.0', '[::]', '::') else host}:{port}"  # noqa: S104
        port_number = broker.port + PORT_DISTANCE
        return f"http://127.0.0.1:{port_number}" if port_number <= PORT_MAX and _is_local(broker.host) else None

    def _with_rates(self, broker: Broker, now: NodeFigures | None) -> Broker:
        at_s = time.monotonic()
        before = self._traffic.get(broker.broker_id)
        if now is None:
            return replace(broker, node=None, in_per_s=None, out_per_s=None)
        self._traffic[broker.broker_id] = at_s, now
        if before is None or before[1].url != now.url:
            return replace(broker, node=now)
        passed_s = max(at_s - before[0], 1e-3)
        return replace(
            broker,
            node=now,
            in_per_s=_per_second(before[1].bytes_in, now.bytes_in, passed_s),
            out_per_s=_per_second(before[1].bytes_out, now.bytes_out, passed_s),
        )


def _per_second(before: float | None, now: float | None, passed_s: float) -> float | None:
    """None after a restart of the node, when its counter began again."""
    if before is None or now is None or now < before:
        return None
    return (now - before) / passed_s


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _figures(url: str) -> NodeFigures:
    answers = jolokia(url, [{"type": "version"}, *({"type": "read", "mbean": name} for name in _READ)])
    if not isinstance(answers, list) or len(answers) != len(_READ) + 1:
        raise NodeUnreachable(f"{url} is not Jolokia")
    version, *values = (each.get("value") if isinstance(each, dict) else None for each in answers)
    bytes_in, bytes_out, runtime, memory = values
    started_ms = _number(runtime, "StartTime")
    resident = _number(memory, "ResidentBytes")
    return NodeFigures(
        url=url,
        version=str(version["agent"]) if isinstance(version, dict) and "agent" in version else None,
        started_ms=None if started_ms is None else int(started_ms),
        resident_bytes=None if resident is None else int(resident),
        bytes_in=_number(bytes_in, "Count"),
        bytes_out=_number(bytes_out, "Count"),
    )


def _number(attributes: object, name: str) -> float | None:
    value = attributes.get(name) if isinstance(attributes, dict) else None
    return float(value) if isinstance(value, int | float) else None
