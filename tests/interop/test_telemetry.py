"""Client telemetry (KIP-714): the same requests to Odradek and to Apache Kafka, and metrics that a Java client pushes.

Kafka does not advertise these APIs without a plug-in, but it answers them.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from odradek.base.ids import ZERO_UUID, uuid_from_text
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.p71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from odradek.protocol.messages.p72_push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from odradek.protocol.schema import Message
from support.broker_process import BrokerProcess, free_port
from support.foreign_programs import compiled, java
from support.kafka_process import KafkaProcess
from support.kafka_tools import kafka_jars
from support.waiting import wait_until

ID = uuid_from_text("zzzzzzzzQAeAAAAAAAAAAA")
OTHER_ID = bytes(range(16))
INTERVAL_S = 0.3
RECORDS = 2000
WITHIN_S = 60


class Connection:
    """A client that sends any request."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=WITHIN_S)
        self.ask(ApiVersionsRequest(client_software_name="soft", client_software_version="1.2"), 3, ApiVersionsResponse)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int, response: type[Message]) -> Any:
        self._socket.sendall(request_frame(request.KEY, version, 1, "tool", request.encode(version)))
        (size,) = struct.unpack(">i", self._exactly(4))
        header = 5 if has_tagged_response_header(request.KEY, version) else 4
        return response.decode(self._exactly(size), version, header)

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self._socket.recv(count - len(found))
            assert part, "the broker closed the connection"
            found += part
        return found

    def get(self, instance_id: bytes = ID) -> Any:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return self.ask(request, 0, GetTelemetrySubscriptionsResponse)

    def push(self, subscription_id: int, instance_id: bytes = ID, **fields: Any) -> int:
        request = PushTelemetryRequest(client_instance_id=instance_id, subscription_id=subscription_id, **fields)
        code: int = self.ask(request, 0, PushTelemetryResponse).error_code
        return code

    def subscribe(self, **settings: str) -> None:
        """Returns when this broker has the subscription."""
        configs = [AlterableConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
        resource = AlterConfigsResource(resource_type=16, resource_name="s", configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        [answer] = self.ask(request, 1, IncrementalAlterConfigsResponse).responses
        assert answer.error_code == 0
        time.sleep(1)  # Kafka's broker applies it shortly after the controller has answered


def answers(bootstrap: str) -> list[object]:
    """What a broker answers, request by request."""
    with ExitStack() as stack:
        client, elsewhere, third = (stack.enter_context(closing(Connection(bootstrap))) for _ in range(3))
        return script(client, elsewhere, third)


def script(client: Connection, elsewhere: Connection, third: Connection) -> list[object]:
    told: list[object] = [_told(client.get()), client.get().error_code]
    client.subscribe(metrics="*")
    granted = client.get()
    told += [_told(granted), client.push(granted.subscription_id), client.push(granted.subscription_id)]
    client.subscribe(interval_ms=str(int(INTERVAL_S * 1000)))
    told.append(client.push(granted.subscription_id))
    granted = client.get()
    _pause()  # Kafka counts the interval from the refused push, Odradek accepts the next one at once
    told += [_told(granted), client.push(granted.subscription_id), client.push(granted.subscription_id)]
    for wrong in ({"compression_type": 9}, {"metrics": bytes(1_048_577)}, {"terminating": True}, {}, {}):
        _pause()
        told.append(client.push(granted.subscription_id, **wrong))
    told.append(client.get().error_code)
    told += [third.push(0, reserved) for reserved in (ZERO_UUID, bytes(15) + b"\x01")]
    told.append(elsewhere.push(0, OTHER_ID))
    told.append(elsewhere.get(OTHER_ID).error_code)
    told.append(elsewhere.get(OTHER_ID))
    return told


def _told(answer: Any) -> tuple[object, ...]:
    """Without the temporality, which is ours to choose."""
    return (
        answer.error_code,
        answer.client_instance_id,
        answer.subscription_id,
        list(answer.accepted_compression_types),
        answer.push_interval_ms,
        answer.telemetry_max_bytes,
        list(answer.requested_metrics),
    )


def _pause() -> None:
    time.sleep(INTERVAL_S + 0.05)


@pytest.fixture
def odradek(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "odradek")
    process.config["http.listener"] = f"127.0.0.1:{free_port()}"
    with process:
        yield process


def test_odradek_answers_telemetry_requests_as_kafka_does(tmp_path: Path, odradek: BrokerProcess) -> None:
    with KafkaProcess(tmp_path / "kafka") as kafka:
        theirs = answers(kafka.bootstrap)
    assert answers(odradek.bootstrap) == theirs


def test_metrics_of_a_java_producer_are_exported(odradek: BrokerProcess) -> None:
    with closing(Connection(odradek.bootstrap)) as client:
        client.subscribe(metrics="*", interval_ms="100", match="client_software_name=.*java.*")
    with java_producer(odradek.bootstrap):
        sent = wait_until(lambda: sent_by_producer(odradek), f"{RECORDS} records are exported")
    assert sent.labels["client_software_name"] == "apache-kafka-java"


@contextmanager
def java_producer(bootstrap: str) -> Iterator[None]:
    """Sends records and stays open: when it is closed, its last push comes before the records that it buffers."""
    libraries = [kafka_jars.jars(), kafka_jars.tools()]
    classpath = [compiled("java", libraries), *libraries]
    command = java("Sender", bootstrap, "orders", str(RECORDS), "measured", classpath=classpath)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield
            process.communicate(timeout=WITHIN_S)
            assert process.returncode == 0
        finally:
            process.kill()


def sent_by_producer(odradek: BrokerProcess) -> Sample | None:
    """The exported counter, once it has all records."""
    text = httpx.get(f"http://{odradek.config['http.listener']}/metrics", timeout=30).text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            is_counter = sample.name == "org_apache_kafka_producer_record_send_total"
            if is_counter and sample.labels.get("client_id") == "measured":
                assert sample.value <= RECORDS
                return sample if sample.value == RECORDS else None
    return None
