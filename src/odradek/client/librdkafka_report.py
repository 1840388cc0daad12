"""The metrics in one of librdkafka's reports (`statistics.interval.ms`), under the names of Java's clients. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from odradek.base.limits import client_metric_partitions_max, client_metric_topics_max
from odradek.monitor.catalogue import clients as m
from odradek.monitor.metric import Metric
from odradek.monitor.registry import Number, Reading

Report = Mapping[str, Any]

_MS = 0.001  # librdkafka's times are in microseconds
_NETWORK = {
    "producer": (
        (m.PRODUCER_BYTES_IN, m.PRODUCER_BYTES_IN_RATE, "rx_bytes"),
        (m.PRODUCER_BYTES_OUT, m.PRODUCER_BYTES_OUT_RATE, "tx_bytes"),
        (m.PRODUCER_REQUESTS, m.PRODUCER_REQUEST_RATE, "tx"),
        (m.PRODUCER_RESPONSES, m.PRODUCER_RESPONSE_RATE, "rx"),
    ),
    "consumer": (
        (m.CONSUMER_BYTES_IN, m.CONSUMER_BYTES_IN_RATE, "rx_bytes"),
        (m.CONSUMER_BYTES_OUT, m.CONSUMER_BYTES_OUT_RATE, "tx_bytes"),
        (m.CONSUMER_REQUESTS, m.CONSUMER_REQUEST_RATE, "tx"),
        (m.CONSUMER_RESPONSES, m.CONSUMER_RESPONSE_RATE, "rx"),
    ),
}
_CONNECTIONS = {
    "producer": (m.PRODUCER_CONNECTIONS, m.PRODUCER_CONNECTS, m.PRODUCER_DISCONNECTS),
    "consumer": (m.CONSUMER_CONNECTIONS, m.CONSUMER_CONNECTS, m.CONSUMER_DISCONNECTS),
}
_NODES = {
    "producer": (m.PRODUCER_NODE_REQUESTS, m.PRODUCER_NODE_LATENCY_AVG, m.PRODUCER_NODE_LATENCY_MAX),
    "consumer": (m.CONSUMER_NODE_REQUESTS, m.CONSUMER_NODE_LATENCY_AVG, m.CONSUMER_NODE_LATENCY_MAX),
}


class ReportReading:
    """The readings of the latest report. Rates are since the `earlier` one, or since the start of the client."""

    def __init__(self, latest: Report, earlier: Report | None, failed: Mapping[str, int], failed_before: int) -> None:
        """`failed`: records that were not delivered, by topic; `failed_before`: their number at `earlier`."""
        self._latest = latest
        self._earlier: Report = earlier or {}
        self._passed_s = (latest["ts"] - self._earlier["ts"] if self._earlier else latest["age"]) / 1e6
        self._failed = failed
        self._failed_before = failed_before
        self._kind: str = latest["type"]
        # Unique in the process, while several clients may have the same client.id.
        self._client: str = latest["name"]
        self._brokers = [broker for broker in latest["brokers"].values() if broker["nodeid"] >= 0]

    def readings(self) -> Iterator[Reading]:
        for total, rate, field in _NETWORK[self._kind]:
            yield from self._counted(total, rate, self._latest[field], self._earlier.get(field, 0))
        connected, made, ended = _CONNECTIONS[self._kind]
        yield self._of(connected, sum(broker["state"] == "UP" for broker in self._latest["brokers"].values()))
        yield self._of(made, sum(broker["connects"] for broker in self._latest["brokers"].values()))
        yield self._of(ended, sum(broker["disconnects"] for broker in self._latest["brokers"].values()))
        yield from self._nodes()
        yield from self._produced() if self._kind == "producer" else self._consumed()

    def _of(self, metric: Metric, value: Number, *labels: str) -> Reading:
        given = (self._client, *labels)
        return Reading(metric, (*given, *("",) * (len(metric.labels) - len(given))), value)

    def _counted(self, total: Metric, rate: Metric, now: int, before: int, *labels: str) -> Iterator[Reading]:
        yield self._of(total, now, *labels)
        if self._passed_s > 0:
            yield self._of(rate, max(0, now - before) / self._passed_s, *labels)

    def _window(self, average: Metric, largest: Metric, windows: list[Report], scale: float) -> Iterator[Reading]:
        """Averages and maxima of a report are of the time since the report before it: none without an event."""
        used = [window for window in windows if window["cnt"]]
        if used:
            count = sum(window["cnt"] for window in used)
            yield self._of(average, sum(window["sum"] for window in used) / count * scale)
            yield self._of(largest, max(window["max"] for window in used) * scale)

    def _throttled(self, average: Metric, largest: Metric, windows: list[Report]) -> Iterator[Reading]:
        """0 if no response was delayed."""
        if any(window["cnt"] for window in windows):
            yield from self._window(average, largest, windows, 1)
        else:
            yield self._of(average, 0)
            yield self._of(largest, 0)

    def _nodes(self) -> Iterator[Reading]:
        requests, average, largest = _NODES[self._kind]
        for broker in self._brokers:
            node = str(broker["nodeid"])
            yield self._of(requests, broker["tx"], node)
            if broker["rtt"]["cnt"]:
                yield self._of(average, broker["rtt"]["avg"] * _MS, node)
                yield self._of(largest, broker["rtt"]["max"] * _MS, node)

    def _produced(self) -> Iterator[Reading]:
        latest, earlier = self._latest, self._earlier
        failed = sum(self._failed.values())
        yield from self._counted(m.RECORDS_SENT, m.RECORD_SEND_RATE, latest["txmsgs"], earlier.get("txmsgs", 0))
        yield from self._counted(m.RECORD_ERRORS, m.RECORD_ERROR_RATE, failed, self._failed_before)
        rtt = [broker["rtt"] for broker in self._brokers]
        waits = [broker["int_latency"] for broker in self._brokers]
        throttles = [broker["throttle"] for broker in self._brokers]
        sizes = [topic["batchsize"] for topic in latest["topics"].values()]
        yield from self._window(m.REQUEST_LATENCY_AVG, m.REQUEST_LATENCY_MAX, rtt, _MS)
        yield from self._window(m.QUEUE_TIME_AVG, m.QUEUE_TIME_MAX, waits, _MS)
        yield from self._throttled(m.THROTTLE_AVG, m.THROTTLE_MAX, throttles)
        yield from self._window(m.BATCH_SIZE_AVG, m.BATCH_SIZE_MAX, sizes, 1)
        yield self._of(m.IN_FLIGHT, sum(broker["waitresp_cnt"] for broker in self._brokers))
        yield self._of(m.BUFFER_TOTAL, latest["msg_size_max"])
        yield self._of(m.BUFFER_AVAILABLE, max(0, latest["msg_size_max"] - latest["msg_size"]))
        ages = [topic["metadata_age"] for topic in latest["topics"].values()]
        if ages:
            yield self._of(m.METADATA_AGE, max(ages) / 1000)
        for name, topic in islice(latest["topics"].items(), client_metric_topics_max):
            before = earlier.get("topics", {}).get(name)
            for field, total, rate in (
                ("txmsgs", m.TOPIC_RECORDS_SENT, m.TOPIC_SEND_RATE),
                ("txbytes", m.TOPIC_BYTES_SENT, m.TOPIC_BYTE_RATE),
            ):
                yield from self._counted(total, rate, _sum(topic, field), _sum(before, field), name)
        # A counter must begin at 0: the increase from nothing to 1 is none.
        failed_by_topic = dict.fromkeys(latest["topics"], 0) | dict(self._failed)
        for name, count in islice(failed_by_topic.items(), client_metric_topics_max):
            yield self._of(m.TOPIC_ERRORS, count, name)

    def _consumed(self) -> Iterator[Reading]:
        earlier_topics = self._earlier.get("topics", {})
        taken = dict[str, list[int]]()
        for name, topic in self._latest["topics"].items():
            before = earlier_topics.get(name)
            # Records that librdkafka has fetched and the program has not taken yet are not consumed.
            taken[name] = [
                _sum(topic, "rxmsgs") - _sum(topic, "fetchq_cnt"),
                _sum(before, "rxmsgs") - _sum(before, "fetchq_cnt"),
                max(0, _sum(topic, "rxbytes") - _sum(topic, "fetchq_size")),
                max(0, _sum(before, "rxbytes") - _sum(before, "fetchq_size")),
            ]
        totals = [sum(each[index] for each in taken.values()) for index in range(4)]
        for labels, (records, records_before, size, size_before) in (
            ((), totals),
            *(((name,), each) for name, each in islice(taken.items(), client_metric_topics_max)),
        ):
            yield from self._counted(m.RECORDS_CONSUMED, m.RECORDS_CONSUMED_RATE, records, records_before, *labels)
            yield from self._counted(m.BYTES_CONSUMED, m.BYTES_CONSUMED_RATE, size, size_before, *labels)
        fetches = sum(broker["req"].get("Fetch", 0) for broker in self._brokers)
        earlier_brokers = self._earlier.get("brokers", {}).values()
        before_fetches = sum(broker["req"].get("Fetch", 0) for broker in earlier_brokers)
        yield from self._counted(m.FETCH_TOTAL, m.FETCH_RATE, fetches, before_fetches)
        rtt = [broker["rtt"] for broker in self._brokers]
        yield from self._window(m.FETCH_LATENCY_AVG, m.FETCH_LATENCY_MAX, rtt, _MS)
        throttles = [broker["throttle"] for broker in self._brokers]
        yield from self._throttled(m.FETCH_THROTTLE_AVG, m.FETCH_THROTTLE_MAX, throttles)
        yield from self._positions()
        group = self._latest.get("cgrp")
        if group is not None:
            yield self._of(m.ASSIGNED, group["assignment_size"])
            yield self._of(m.REBALANCES, group["rebalance_cnt"])

    def _positions(self) -> Iterator[Reading]:
        places = [
            (name, number, place)
            for name, topic in self._latest["topics"].items()
            for number, place in topic["partitions"].items()
            if place["app_offset"] >= 0 and place["hi_offset"] >= 0
        ]
        lags = [max(0, place["hi_offset"] - place["app_offset"]) for _, _, place in places]
        if lags:
            yield self._of(m.LAG_MAX, max(lags))
        for (name, number, place), lag in zip(places[:client_metric_partitions_max], lags, strict=False):
            yield self._of(m.LAG, lag, name, number)
            yield self._of(m.LEAD, max(0, place["app_offset"] - place["lo_offset"]), name, number)


def _sum(topic: Report | None, field: str) -> int:
    return 0 if topic is None else sum(place[field] for place in topic["partitions"].values())
