"""DescribeConfigs of Apache Kafka and Odradek after the same changes.

Value, source, synonyms, type and read_only must be equal for each key that both have.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.protocol.messages.p32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.broker_process import BrokerProcess
from support.kafka_process import KafkaProcess
from traps.wire import Wire

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2
SETTLES_WITHIN_S = 10
STATIC = {
    "offsets.topic.replication.factor": "1",
    "log.index.size.max.bytes": "1200",
    "log.retention.hours": "24",
    "log.flush.scheduler.interval.ms": "5000",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "log.cleaner.io.max.bytes.per.second": "2.5E7",
}
# By default an Odradek node is a cluster of one node. It has one listener for clients (docs/not-yet.md).
ABOUT_THE_NODE = (
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
)
# Kafka has no defaults for the first two.
OTHER_DEFAULTS = ("node.id", "process.roles", "offsets.topic.segment.bytes")
# Kafka ignores the values of these in the file if the key with higher precedence is set dynamically.
HIDDEN = ("log.retention.hours", "log.flush.scheduler.interval.ms")


class Change(NamedTuple):
    broker: str
    key: str
    value: str | None
    operation: int = SET


ACCEPTED = [
    Change("1", "log.cleaner.io.max.bytes.per.second", "1e6"),
    Change("", "log.cleaner.io.max.bytes.per.second", "2000000"),
    Change("", "log.cleaner.backoff.ms", " 20000 "),
    Change("1", "log.cleaner.dedupe.buffer.size", "3000000"),
    Change("1", "producer.id.expiration.ms", "60000"),
    Change("1", "log.retention.ms", "7000"),
    Change("", "log.retention.ms", "8000"),
    Change("", "log.preallocate", "TRUE"),
    Change("", "log.cleanup.policy", "compact", APPEND),
    Change("1", "log.roll.ms", "9000"),
    Change("", "log.flush.interval.ms", "10000"),
    Change("1", "num.partitions", None, DELETE),
]
REFUSED = [
    Change("1", "num.partitions", "2"),
    Change("", "num.partitions", "2"),
    Change("1", "log.retention.hours", "2"),
    Change("1", "log.cleaner.enable", "false"),
    Change("", "log.cleaner.backoff.ms", "-1"),
    Change("1", "log.cleaner.backoff.ms", "soon"),
    Change("1", "log.cleaner.backoff.ms", None),
    Change("1", "producer.id.expiration.ms", "0"),
    Change("1", "log.segment.bytes", "5"),
    Change("1", "min.insync.replicas", "2"),
    Change("2", "log.retention.ms", "1"),
]


class Pair(NamedTuple):
    odradek: int
    kafka: int


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder: Path = tmp_path_factory.mktemp("described")
    odradek = BrokerProcess(folder / "odradek")
    odradek.config |= STATIC
    with odradek, KafkaProcess(folder / "kafka", config=STATIC) as kafka:
        for port in (odradek.port, kafka.port):
            with Wire(port) as wire:
                wire.create_topic("orders", segment_bytes="1048576")
        yield Pair(odradek.port, kafka.port)


def described(port: int, kind: int, name: str) -> dict[str, object]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    with Wire(port) as wire:
        (result,) = wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results
    assert result.error_code == 0, result.error_message
    return {
        row.name: (
            *(row.value, row.read_only, row.config_source, row.config_type, row.is_sensitive),
            [(synonym.name, synonym.value, synonym.source) for synonym in row.synonyms],
        )
        for row in result.configs
    }


def changed(port: int, change: Change) -> tuple[int, str | None]:
    config = AlterableConfig(name=change.key, config_operation=change.operation, value=change.value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=change.broker, configs=[config])
    with Wire(port) as wire:
        (answer,) = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


def differences(ports: Pair, kind: int, name: str, leaving_out: tuple[str, ...] = ()) -> dict[str, object]:
    """Retries, because Kafka's broker receives a change shortly after the controller has answered the request."""
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while True:
        ours, theirs = described(ports.odradek, kind, name), described(ports.kafka, kind, name)
        assert set(ours) <= set(theirs)
        found = {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key] and key not in leaving_out}
        if not found or time.monotonic() > deadline:
            return found


def test_described_configs_of_the_config_file_equal_those_of_kafka(ports: Pair) -> None:
    assert differences(ports, TOPIC, "orders") == {}
    assert differences(ports, BROKER, "1", (*ABOUT_THE_NODE, *OTHER_DEFAULTS)) == {}
    assert differences(ports, BROKER, "") == {}


@pytest.mark.parametrize("change", REFUSED, ids=str)
def test_refused_config_changes_have_the_same_error_as_in_kafka(ports: Pair, change: Change) -> None:
    theirs = changed(ports.kafka, change)
    assert theirs[0] != 0
    assert changed(ports.odradek, change) == theirs


def test_described_dynamic_configs_equal_those_of_kafka(ports: Pair) -> None:
    for change in ACCEPTED:
        assert changed(ports.odradek, change) == changed(ports.kafka, change) == (0, None), change
    assert differences(ports, TOPIC, "orders") == {}
    assert differences(ports, BROKER, "1", (*ABOUT_THE_NODE, *OTHER_DEFAULTS, *HIDDEN)) == {}
    assert differences(ports, BROKER, "") == {}
    for change in ACCEPTED:
        undone = change._replace(value=None, operation=DELETE)
        assert changed(ports.odradek, undone) == changed(ports.kafka, undone) == (0, None), change
    assert differences(ports, BROKER, "1", (*ABOUT_THE_NODE, *OTHER_DEFAULTS)) == {}
    assert differences(ports, BROKER, "") == {}
