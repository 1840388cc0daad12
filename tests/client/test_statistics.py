"""Metrics of clients, under the names of Java's clients, by themselves and at /metrics."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from odradek.base import limits
from odradek.client import AsyncConsumer, AsyncProducer, Consumer, Producer, SendFailed, export_metrics
from odradek.client import statistics as module
from odradek.client.librdkafka_report import ReportReading
from odradek.client.statistics import Statistics, of_open_clients
from odradek.monitor.catalogue import clients
from support.waiting import wait_until

PATIENCE_S = 60.0
SOON = {"statistics_interval_ms": 100}


def by_name(metrics, **tags):
    """The values of one group of tags (besides client-id), by group and name."""
    wanted = {(name.replace("_", "-"), value) for name, value in tags.items()}
    return {
        (key.group, key.name): value
        for key, value in metrics.items()
        if {tag for tag in key.tags if tag[0] != "client-id"} == wanted
    }


def polled(ask, is_enough):
    return wait_until(lambda: metrics if is_enough(metrics := ask()) else None, ask)


def test_metrics_are_empty_before_the_first_report(bootstrap, topic):
    with Producer(bootstrap, statistics_interval_ms=3_600_000) as producer:
        producer.send(topic, b"x").result()
        assert producer.metrics() == {}


def test_producer_measures_what_it_sends(bootstrap, topic):
    with Producer(bootstrap, **SOON) as producer:
        for number in range(40):
            producer.send(topic, b"x" * 100, partition=number % 2)
        producer.flush()
        group = "producer-metrics"
        metrics = polled(producer.metrics, lambda found: by_name(found).get((group, "record-send-rate"), 0) > 0)
        ours = by_name(metrics)
        assert ours[group, "record-send-total"] == 40
        assert ours[group, "record-error-total"] == 0
        assert ours[group, "outgoing-byte-total"] > 4000
        assert ours[group, "connection-count"] >= 1
        assert ours[group, "buffer-available-bytes"] <= ours[group, "buffer-total-bytes"]
        assert by_name(metrics, topic=topic)["producer-topic-metrics", "byte-total"] >= 4000
        assert by_name(metrics, node_id="1")["producer-node-metrics", "request-total"] > 0
        assert all(dict(name.tags)["client-id"].startswith("rdkafka#producer-") for name in metrics)


def test_failed_records_are_counted(bootstrap, topic):
    with Producer(bootstrap, **SOON) as producer:
        with pytest.raises(SendFailed):
            producer.send(topic, b"x", partition=7).result(30)
        metrics = polled(
            producer.metrics, lambda found: by_name(found).get(("producer-metrics", "record-error-total")) == 1
        )
        assert by_name(metrics, topic=topic)["producer-topic-metrics", "record-error-total"] == 1


def test_consumer_measures_records_and_lag(bootstrap, topic):
    with Producer(bootstrap) as producer:
        for _ in range(10):
            producer.send(topic, b"x", partition=0)
    fetches = "consumer-fetch-manager-metrics"
    with Consumer(topic, bootstrap=bootstrap, group="readers", **SOON) as consumer:
        for _ in range(4):
            assert consumer.poll(PATIENCE_S) is not None

        def ask():
            consumer._reading.client.poll(0)  # reports come with a poll; the record would be the fifth
            return consumer.metrics()

        metrics = polled(ask, lambda found: by_name(found).get((fetches, "records-lag-max"), 10) == 0)
        ours = by_name(metrics)
        assert ours[fetches, "records-consumed-total"] == 10
        assert ours[fetches, "fetch-total"] > 0
        assert ours["consumer-coordinator-metrics", "assigned-partitions"] == 3
        place = by_name(metrics, topic=topic, partition="0")
        assert place[fetches, "records-lag"] == 0
        assert place[fetches, "records-lead"] == 10
        assert by_name(metrics, topic=topic)[fetches, "records-consumed-total"] == 10


def test_async_clients_have_metrics_too(bootstrap, topic):

    async def scenario():
        async with AsyncProducer(bootstrap, **SOON) as producer:
            await producer.send_and_wait(topic, b"x")
            await asyncio.to_thread(
                polled, producer.metrics, lambda found: by_name(found).get(("producer-metrics", "record-send-total"))
            )
        consumer = AsyncConsumer(topic, bootstrap=bootstrap, **SOON)
        assert consumer.metrics() == {}
        async with consumer:
            assert await consumer.poll(PATIENCE_S) is not None
            while not consumer.metrics():
                await consumer.poll(0.05)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_clients_of_a_process_are_exported_until_they_are_closed(bootstrap, topic):
    with export_metrics(port=0) as exported:
        with (
            Producer(bootstrap, **SOON) as one,
            Producer(bootstrap, client_id="two", **SOON) as two,
        ):
            for producer in (one, two):
                producer.send(topic, b"x").result()
                polled(producer.metrics, lambda found: by_name(found).get(("producer-metrics", "record-send-total")))
            for parse, accept in ((parse_text, "text/plain"), (parse_open_metrics, "application/openmetrics-text")):
                text = httpx.get(exported.url, headers={"accept": accept}).text
                samples = [
                    sample
                    for family in parse(text)
                    for sample in family.samples
                    if sample.name == "kafka_producer_producer_metrics_record_send_total"
                    and sample.labels["client_id"].partition("#")[0] in ("two", "rdkafka")
                ]
                assert {sample.labels["client_id"].partition("#")[0] for sample in samples} == {"two", "rdkafka"}
                assert len({sample.labels["client_id"] for sample in samples}) == len(samples)
        assert "two#producer" not in httpx.get(exported.url).text


def test_reports_can_be_turned_off(bootstrap, topic):
    with Producer(bootstrap, statistics_interval_ms=0) as producer:
        producer.send(topic, b"x").result()
        producer._deliveries.client.poll(0.3)
        assert producer.metrics() == {}


REPORT = json.loads(Path(__file__).with_name("consumer_report.json").read_text())


def test_every_reading_fits_its_declaration_and_names_are_distinct():
    later = {**REPORT, "ts": REPORT["ts"] + 10_000_000, "rx_bytes": REPORT["rx_bytes"] + 500}
    readings = list(ReportReading(later, REPORT, {}, 0).readings())
    assert all(len(reading.labels) == len(reading.metric.labels) for reading in readings)
    assert len({(reading.metric, reading.labels) for reading in readings}) == len(readings)
    (rate,) = [each.value for each in readings if each.metric is clients.CONSUMER_BYTES_IN_RATE]
    assert rate == 50


def test_rates_before_a_second_report_are_since_the_start_of_the_client():
    report = {**REPORT, "age": 20_000_000, "rx_bytes": 500}
    (rate,) = [
        each.value
        for each in ReportReading(report, None, {}, 0).readings()
        if each.metric is clients.CONSUMER_BYTES_IN_RATE
    ]
    assert rate == 25


def test_records_sent_before_the_first_report_count_in_rates(monkeypatch):
    """On a busy machine the first report comes after the last record."""
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    statistics = Statistics()
    for now in range(5, 30, 5):
        statistics.reported(json.dumps({**REPORT, "ts": now * 1_000_000, "age": now * 1_000_000, "rx_bytes": 500}))
        (rate,) = [each.value for each in statistics.readings() if each.metric is clients.CONSUMER_BYTES_IN_RATE]
        assert rate == 500 / now
    statistics.end()


def test_topics_and_partitions_of_a_report_are_bounded(monkeypatch):
    (topic,) = REPORT["topics"].values()
    many = {**REPORT, "topics": {f"topic-{number}": topic for number in range(300)}}
    monkeypatch.setattr("odradek.client.librdkafka_report.client_metric_partitions_max", 50)
    monkeypatch.setattr("odradek.client.librdkafka_report.client_metric_topics_max", 20)
    readings = list(ReportReading(many, None, {}, 0).readings())
    assert sum(reading.metric is clients.LAG for reading in readings) == 50
    assert sum(reading.metric is clients.RECORDS_CONSUMED for reading in readings) == 1 + 20
    assert sum(reading.metric is clients.LAG_MAX for reading in readings) == 1
    assert (limits.client_metric_topics_max, limits.client_metric_partitions_max) == (200, 1000)


def test_rates_cover_one_to_two_windows(monkeypatch):
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    statistics = Statistics()
    for now in range(0, 200, 5):
        statistics.reported(json.dumps({**REPORT, "ts": now * 1_000_000}))
        age = now - (statistics._earlier.at_s if statistics._earlier else 0)
        assert age <= 2 * module.RATE_WINDOW_S
        assert age >= module.RATE_WINDOW_S or now < module.RATE_WINDOW_S + 5
    ours = list(statistics.readings())
    assert [each for each in of_open_clients() if each in ours] == ours
    statistics.end()
    assert not [each for each in of_open_clients() if each in ours]
