"""librdkafka pushes its metrics when a subscription matches it, and they appear on /metrics of the broker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from odradek.cli.main import main
from support.broker_process import BrokerProcess, free_port
from support.wiretap import Wiretap

pytestmark = pytest.mark.clients

WITHIN_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    process.config["http.listener"] = f"127.0.0.1:{free_port()}"
    process.tap_port = free_port()  # type: ignore[attr-defined]
    process.config["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{process.tap_port}"  # type: ignore[attr-defined]
    with process:
        subscribe(
            process, "producers", "interval.ms=200", "match=client_software_name=confluent.*,client_id=pushing-.*"
        )
        yield process


def subscribe(broker: BrokerProcess, name: str, *settings: str) -> None:
    arguments = ["config", "set", "client-metrics", name, "metrics=org.apache.kafka.producer.", *settings]
    done = CliRunner().invoke(main, [*arguments, "-b", broker.bootstrap])
    assert done.exit_code == 0, done.output


def exported(broker: BrokerProcess) -> list[tuple[str, dict[str, str], float]]:
    text = httpx.get(f"http://{broker.config['http.listener']}/metrics").text
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def pushed_by(broker: BrokerProcess, client_id: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in exported(broker):
        if labels.get("client_id") == client_id:
            found.setdefault(name, []).append((labels, value))
    return found


def wait_for(broker: BrokerProcess, client_id: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    deadline = time.monotonic() + WITHIN_S
    while not (series := pushed_by(broker, client_id)):
        assert time.monotonic() < deadline, broker.output
    return series


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_metrics_of_a_producer_are_exported(broker: BrokerProcess, tap: Wiretap, codec: str) -> None:
    client_id = f"pushing-{codec}"
    producer = Producer({"bootstrap.servers": tap.bootstrap, "client.id": client_id, "compression.type": codec})
    producer.produce("orders", b"value")
    assert producer.flush(60) == 0
    series = wait_for(broker, client_id)
    assert all(name.startswith("org_apache_kafka_producer_") for name in series)
    [(labels, value)] = series["org_apache_kafka_producer_connection_creation_total"]
    assert value >= 1
    assert labels["client_software_name"] == "confluent-kafka-python"
    assert len(labels["client_instance_id"]) == 22
    assert any("node_id" in labels for rows in series.values() for labels, _ in rows)


def test_a_client_that_no_subscription_matches_pushes_nothing(broker: BrokerProcess, tap: Wiretap) -> None:
    silent = Producer({"bootstrap.servers": tap.bootstrap, "client.id": "silent"})
    pushing = Producer({"bootstrap.servers": tap.bootstrap, "client.id": "pushing-beside"})
    for producer in (silent, pushing):
        producer.produce("orders", b"value")
        assert producer.flush(60) == 0
    wait_for(broker, "pushing-beside")
    assert pushed_by(broker, "silent") == {}


def test_a_client_that_closes_pushes_once_more(broker: BrokerProcess, tap: Wiretap) -> None:
    subscribe(broker, "rare", "interval.ms=3600000", "match=client_id=closing")
    deadline = time.monotonic() + WITHIN_S
    while not pushed_by(broker, "closing"):
        assert time.monotonic() < deadline, broker.output
        # A client that closes before it has received its subscription pushes nothing.
        producer = Producer({"bootstrap.servers": tap.bootstrap, "client.id": "closing"})
        for _ in range(20):
            producer.produce("orders", b"value")
            assert producer.flush(60) == 0
        producer.close()


def test_a_subscription_survives_a_kill(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data").start()
    subscribe(process, "kept", "match=client_id=app-.*")
    process.kill()
    with process:
        shown = CliRunner().invoke(
            main, ["config", "get", "client-metrics", "kept", "-o", "json", "-b", process.bootstrap]
        )
    assert {row["config"]: row["value"] for row in json.loads(shown.stdout)} == {
        "metrics": "org.apache.kafka.producer.",
        "match": "client_id=app-.*",
    }
