"""Every metric is declared once, with the name that the usual JMX-exporter rules for Kafka derive."""

from __future__ import annotations

import re

import pytest

from odradek.monitor.catalogue import all_metrics
from odradek.monitor.metric import Kind, Metric

METRICS = all_metrics()
# Metrics of the process have the names that every Prometheus client library uses; lag those of Burrow and its kind.
STANDARD = re.compile(r"process_\w+|burrow_kafka_\w+|kafka_consumergroup_\w+")
# Burrow's gauge has the suffix of a counter.
BURROWS_TOTAL = "burrow_kafka_consumer_lag_total"


def by_the_rules(metric: Metric) -> str:
    """The name by the rules that the JMX exporter ships for Kafka, in lower case."""
    domain, _, properties = metric.mbean.partition(":")
    parts = [each.partition("=")[2] for each in properties.split(",")]
    if metric.kind in (Kind.HISTOGRAM, Kind.TIMER):
        pass
    elif metric.kind is Kind.METER:
        parts[-1] = re.sub(r"PerSec\w*$", "", parts[-1]) + "_total"
    elif "name=" not in properties:
        parts.append(metric.mbean_attribute + ("_info" if metric.kind is Kind.STATE else ""))
    elif metric.kind is Kind.COUNTER:
        parts[-1] += "_total"
    elif parts[-1].endswith("Percent"):
        parts[-1] = parts[-1].removesuffix("Percent") + "_percent"
    return "_".join([domain.replace(".", "_"), *parts]).replace("-", "_").lower()


def test_names_and_attributes_are_unique():
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert len({(metric.mbean, metric.mbean_keys, metric.mbean_attribute) for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_declaration_is_complete(metric):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    counts = metric.kind in (Kind.COUNTER, Kind.METER)
    assert metric.name.endswith("_total") == counts or metric.name == BURROWS_TOTAL
    assert metric.help.endswith(".")
    assert re.fullmatch(r"[\w.]+:type=[\w-]+(,[\w-]+=[\w-]+)*", metric.mbean)
    assert len(metric.mbean_keys) == len(metric.labels)
    for alert in metric.alerts:
        assert metric.name in alert.expression
        assert alert.summary.endswith(".")
        is_count = metric.unit not in ("bytes", "seconds")
        assert not (is_count and re.search(r"\$value \}\} \w", alert.summary)), (
            "1 is singular: name it before the value"
        )
        assert alert.for_seconds >= 0


@pytest.mark.parametrize(
    "metric", [each for each in METRICS if not STANDARD.fullmatch(each.name)], ids=lambda metric: metric.name
)
def test_name_is_that_of_the_jmx_exporter_rules(metric):
    assert metric.name == by_the_rules(metric)


def test_names_of_alerts_are_unique():
    names = [alert.name for metric in METRICS for alert in metric.alerts]
    assert len(set(names)) == len(names)
