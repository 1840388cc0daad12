"""Short forms of declarations. Names for Prometheus follow from MBeans, by the usual JMX-exporter rules for Kafka.

kafka.server:type=ReplicaManager,name=LeaderCount                  kafka_server_replicamanager_leadercount
kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec            kafka_server_brokertopicmetrics_bytesin_total
kafka.server:type=raft-metrics, attribute high-watermark           kafka_server_raft_metrics_high_watermark
"""

from __future__ import annotations

import re

from odradek.monitor.metric import Alert, Kind, Metric

Names = tuple[str, ...]


def gauge(
    mbean: str, unit: str, meaning: str, *alerts: Alert, attribute: str = "", labels: Names = (), keys: Names = ()
) -> Metric:
    return _declared(Kind.GAUGE, mbean, unit, meaning, alerts, attribute=attribute, labels=labels, keys=keys)


def counter(
    mbean: str, unit: str, meaning: str, *alerts: Alert, attribute: str = "", labels: Names = (), keys: Names = ()
) -> Metric:
    return _declared(Kind.COUNTER, mbean, unit, meaning, alerts, attribute=attribute, labels=labels, keys=keys)


def state(
    mbean: str, meaning: str, *alerts: Alert, attribute: str = "", labels: Names = (), keys: Names = ()
) -> Metric:
    return _declared(Kind.STATE, mbean, "state", meaning, alerts, attribute=attribute, labels=labels, keys=keys)


def meter(mbean: str, unit: str, meaning: str, *alerts: Alert, labels: Names = (), lazy: bool = False) -> Metric:
    return _declared(Kind.METER, mbean, unit, meaning, alerts, labels=labels, lazy=lazy)


def histogram(
    mbean: str,
    unit: str,
    meaning: str,
    *alerts: Alert,
    labels: Names = (),
    scale: float = 1.0,
    lazy: bool = False,
) -> Metric:
    return _declared(Kind.HISTOGRAM, mbean, unit, meaning, alerts, labels=labels, scale=scale, lazy=lazy)


def timer(mbean: str, unit: str, meaning: str, *alerts: Alert, labels: Names = (), scale: float = 1.0) -> Metric:
    return _declared(Kind.TIMER, mbean, unit, meaning, alerts, labels=labels, scale=scale)


def prometheus_name(mbean: str, kind: Kind, attribute: str) -> str:
    domain, _, properties = mbean.partition(":")
    parts = [each.partition("=")[2] for each in properties.split(",")]
    if "name=" not in properties:
        parts.append(attribute)
    last = parts[-1]
    if kind is Kind.METER:
        last = re.sub(r"PerSec\w*$", "", last)
    elif kind is Kind.GAUGE and last.endswith("Percent"):
        last = last.removesuffix("Percent") + "_percent"
    if kind in (Kind.METER, Kind.COUNTER) and not last.endswith("total"):
        last += "_total"
    if kind is Kind.STATE:
        last += "_info"
    return re.sub(r"[^a-z0-9_]", "_", "_".join([domain, *parts[:-1], last]).lower())


def _declared(
    kind: Kind,
    mbean: str,
    unit: str,
    meaning: str,
    alerts: tuple[Alert, ...],
    *,
    attribute: str = "",
    labels: Names = (),
    keys: Names = (),
    scale: float = 1.0,
    lazy: bool = False,
) -> Metric:
    return Metric(
        name=prometheus_name(mbean, kind, attribute),
        mbean=mbean,
        kind=kind,
        unit=unit,
        help=meaning,
        attribute=attribute,
        labels=labels,
        keys=keys,
        scale=scale,
        lazy=lazy,
        alerts=alerts,
    )
