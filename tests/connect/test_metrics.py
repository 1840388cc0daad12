"""/metrics and /jolokia of a connect service, under the names of Kafka Connect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek.connect.service.task_figures import RecentRate
from odradek.monitor.catalogue import connect
from odradek.monitor.metric import Metric
from support.connect_service import Service, eventually
from support.scraping import scrape, scrape_until

SECOND = 1_000_000_000


def test_a_source_and_a_sink_are_counted_by_task(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f"{number}\n" for number in range(100)))
    service.create("numbers", connector_class="files-source", path=tmp_path / "a.jsonl", topic="numbers")
    service.create("target", connector_class="files-sink", topics="numbers", path=tmp_path / "out")
    of_source, of_sink = {"connector": "numbers", "task": "0"}, {"connector": "target", "task": "0"}
    found = scrape_until(
        service.url, lambda now: now("kafka_connect_sink_task_metrics_sink_record_send_total", **of_sink) == 100
    )
    assert found("kafka_connect_source_task_metrics_source_record_poll_total", **of_source) == 100
    assert found("kafka_connect_source_task_metrics_source_record_write_total", **of_source) == 100
    assert found("kafka_connect_source_task_metrics_source_record_write_rate", **of_source) > 0
    assert found("kafka_connect_sink_task_metrics_sink_record_read_total", **of_sink) == 100
    assert found("kafka_connect_connector_task_metrics_batch_size_max", **of_sink) <= 100
    assert found("kafka_connect_connector_metrics_connector_type_info", connector="target", state="sink") == 1
    assert found("kafka_connect_connector_task_metrics_status_info", **of_sink, state="running") == 1
    assert found("kafka_connect_connect_worker_metrics_connector_running_task_count", connector="numbers") == 1
    assert found("kafka_connect_connect_worker_metrics_connector_count") >= 2
    assert found("odradek_connect_service_active") == 1
    assert found("process_open_fds") > 0
    declared = {metric.name for metric in vars(connect).values() if isinstance(metric, Metric)}
    declared -= {connect.SLOT_LAG.name, connect.SLOT_RETAINED.name}  # of postgres-cdc alone
    assert declared - set(found.types) - {f"{name}_total" for name in found.types} == set()


def test_jolokia_reads_the_mbeans_of_kafka_connect(service: Service) -> None:
    service.create("made", connector_class="datagen", topic="made", rate=1000, count=7)
    mbean = "kafka.connect:connector=made,task=0,type=source-task-metrics"
    request = {"type": "read", "mbean": mbean, "attribute": "source-record-write-total"}
    eventually(lambda: service.http.post("/jolokia", json=request).json().get("value") == 7)


def test_skipped_records_dead_letters_and_failures_are_counted(service: Service, tmp_path: Path) -> None:
    rows = [json.dumps(1), '{"broken', json.dumps(2)]
    (tmp_path / "a.jsonl").write_text("".join(f"{row}\n" for row in rows))
    shared = {"connector_class": "files-source", "path": tmp_path / "a.jsonl", "topic": "mixed"}
    service.create("tolerant", **shared, errors_tolerance="all", errors_deadletterqueue_topic_name="mixed-dlq")
    service.create("strict", **shared, restart_attempts_max=1, restart_backoff_ms=10)
    tolerant, strict = {"connector": "tolerant", "task": "0"}, {"connector": "strict", "task": "0"}
    failed = "kafka_connect_connect_worker_metrics_connector_failed_task_count"
    found = scrape_until(
        service.url,
        lambda now: (
            now("kafka_connect_source_task_metrics_source_record_write_total", **tolerant) == 2
            and now(failed, connector="strict") == 1
        ),
    )
    assert found("kafka_connect_task_error_metrics_total_records_skipped", **tolerant) == 1
    assert found("kafka_connect_task_error_metrics_deadletterqueue_produce_requests", **tolerant) == 1
    assert found("odradek_connect_task_failures_total", **strict) == 2
    assert found(failed, connector="tolerant") == 0


def test_a_deleted_connector_has_no_series(service: Service) -> None:
    service.create("short", connector_class="datagen", topic="short", rate=1000, count=1)
    total = "kafka_connect_connect_worker_metrics_connector_total_task_count"
    scrape_until(service.url, lambda now: now(total, connector="short") == 1)
    service.http.delete("/connectors/short")
    scrape_until(service.url, lambda now: not [labels for _, labels in now.samples if ("connector", "short") in labels])
    assert scrape(service.url)("odradek_connect_service_active") == 1


@pytest.mark.parametrize(("seconds", "rate"), [(10, 3.0), (29, 30 / 29), (45, 30 / 45), (70, 0.0), (600, 0.0)], ids=str)
def test_a_rate_is_of_the_last_30_to_60_seconds(seconds: int, rate: float) -> None:
    counted = RecentRate(0)
    counted.add(30, SECOND)
    assert counted.per_second(seconds * SECOND) == pytest.approx(rate)
    assert counted.total == 30
