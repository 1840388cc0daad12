"""The console shows Apache Kafka: groups of both protocols, disks, configs, and the quorum; a config is changed."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from odradek.client.admin import Admin
from odradek.console.configs import Kind, change_config, read_configs
from odradek.console.frame import Console
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from support.kafka_process import KafkaProcess
from support.waiting import wait_until

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with KafkaProcess(directory / "data") as kafka:
        Admin(kafka.bootstrap).create_topic("orders", 3)
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(300):
            producer.produce("orders", str(number))
        producer.flush()
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def shown(kafka: str) -> Iterator[tuple[Console, httpx.Client]]:
    with (
        running(ConsoleSettings(bootstrap=kafka, port=0)) as (console, server),
        httpx.Client(base_url=server.url, timeout=60, headers=HTML) as client,
    ):
        yield console, client


def text_of(client: httpx.Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.text)))


def test_the_overview_of_kafka_is_well(shown):
    console, client = shown
    wait_until(lambda: "All is well: the broker is up" in text_of(client, "/"), lambda: text_of(client, "/"))
    wait_until(lambda: console.snapshot.brokers[0].log_dirs, "the disk is known")
    assert "of logs" in text_of(client, "/brokers")
    assert "decides alone" in text_of(client, "/quorum")
    assert "orders" in text_of(client, "/topics")
    for tab in ("", "configs"):
        assert "Broker 1" in text_of(client, f"/brokers/1?tab={tab}")
    assert "name it with --node-http" in text_of(client, "/brokers/1?tab=metrics")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_kafka_have_lag_and_members(kafka, shown, protocol):
    console, client = shown
    name = f"{protocol}-readers"
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    read = wait_until(lambda: consumer.consume(50, 1.0), "records arrive")
    assert read
    consumer.commit(asynchronous=False)
    wait_until(lambda: (found := console.snapshot.groups.get(name)) and found.lag, "the group has lag")
    page = text_of(client, f"/groups/{name}")
    assert "Members 1" in page
    assert "the group has 1 member" in page
    consumer.close()


def test_a_config_of_kafka_is_changed(shown):
    console, _ = shown

    def value() -> str | None:
        return next(
            each.value for each in read_configs(console.cluster, Kind.TOPIC, "orders") if each.name == "retention.ms"
        )

    change_config(console.cluster, Kind.TOPIC, "orders", "retention.ms", "3600000")
    wait_until(lambda: value() == "3600000", "the topic has the value")
