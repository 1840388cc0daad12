"""Faults of the APIs for transactions, and full disks: what librdkafka does, and what consumers see afterwards."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from odradek.base.errors import ErrorCode
from odradek.client import Consumer as Reader
from odradek.protocol.messages.p27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.testing import Embedded
from support.command_line import odradek_command, succeed
from traps.wire import Wire, batch

QUICK = {"log_level": 0, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}
# By API: an error that clients retry.
RETRIED = {
    "InitProducerId": "COORDINATOR_LOAD_IN_PROGRESS",
    "AddPartitionsToTxn": "CONCURRENT_TRANSACTIONS",
    "AddOffsetsToTxn": "COORDINATOR_LOAD_IN_PROGRESS",
    "TxnOffsetCommit": "COORDINATOR_LOAD_IN_PROGRESS",
    "EndTxn": "COORDINATOR_LOAD_IN_PROGRESS",
}
SHOWN = {
    "ListTransactions": ("ls",),
    "DescribeTransactions": ("describe", "copier"),
    "DescribeProducers": ("find-hanging",),
}


def copier(broker: Embedded) -> tuple[Producer, Consumer]:
    succeed(broker, "topic", "create", "out", "-p", "1")
    settings = {"bootstrap.servers": broker.bootstrap_servers, **QUICK}
    consumer = Consumer({**settings, "group.id": "copiers", "enable.auto.commit": False})
    return Producer({**settings, "transactional.id": "copier"}), consumer


def transact(producer: Producer, consumer: Consumer, value: bytes) -> None:
    producer.begin_transaction()
    producer.produce("out", value)
    producer.send_offsets_to_transaction([TopicPartition("out", 0, 7)], consumer.consumer_group_metadata(), 30)


def committed(broker: Embedded) -> list[bytes]:
    with Reader("out", bootstrap=broker.bootstrap_servers, stop_at_end=True) as reader:
        return [record.value for record in reader]


@pytest.mark.parametrize("how", ["fail", "delay", "drop"])
def test_a_transaction_survives_a_fault_of_each_of_its_requests(odradek: Embedded, how: str) -> None:
    producer, consumer = copier(odradek)
    for api, error in RETRIED.items():
        if how == "fail":
            odradek.fail(api, error, times=2)
        elif how == "delay":
            odradek.delay(api, ms=50)
        else:
            odradek.drop(api)
    producer.init_transactions(30)
    transact(producer, consumer, b"record")
    producer.commit_transaction(30)
    assert committed(odradek) == [b"record"]
    seen = {request.api for request in odradek.requests()}
    assert seen >= RETRIED.keys()
    consumer.close()


def test_a_refused_commit_is_abortable(odradek: Embedded) -> None:
    producer, consumer = copier(odradek)
    producer.init_transactions(30)
    odradek.fail("TxnOffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaException) as refused:
        transact(producer, consumer, b"lost")
    assert refused.value.args[0].txn_requires_abort()
    producer.abort_transaction(30)
    transact(producer, consumer, b"kept")
    producer.commit_transaction(30)
    assert committed(odradek) == [b"kept"]
    consumer.close()


@pytest.mark.parametrize("api", SHOWN)
def test_commands_report_a_refusal(odradek: Embedded, api: str) -> None:
    producer, consumer = copier(odradek)
    producer.init_transactions(30)
    odradek.fail(api, "CLUSTER_AUTHORIZATION_FAILED")
    refused = odradek_command(odradek, "txn", *SHOWN[api])
    assert (refused.exit_code, "CLUSTER_AUTHORIZATION_FAILED" in refused.stderr) == (1, True), refused.output
    consumer.close()


def test_a_marker_for_a_full_disk_is_answered_with_a_storage_error(odradek: Embedded) -> None:
    with Wire(odradek.port) as wire:
        wire.create_topic("t", 1, internal_segment_bytes="150")
        assert wire.produce("t", batch(b"the marker does not fit into the segment of this record")).error_code == 0
        odradek.fill_disk()
        topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
        request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=5, producer_epoch=0, topics=[topic])])
        [marker] = wire.ask(request, 1).markers
        odradek.free_disk()
    assert [each.error_code for told in marker.topics for each in told.partitions] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_full_disk_of_the_coordinator_loses_no_transaction(odradek: Embedded) -> None:
    producer, consumer = copier(odradek)
    producer.init_transactions(30)
    transact(producer, consumer, b"before")
    producer.commit_transaction(30)
    transact(producer, consumer, b"open")
    assert producer.flush(60) == 0
    odradek.fill_disk()
    with pytest.raises(KafkaException) as late:
        producer.commit_transaction(1)
    assert late.value.args[0].retriable()
    odradek.free_disk()
    producer.commit_transaction(60)
    transact(producer, consumer, b"after")
    producer.commit_transaction(60)
    assert committed(odradek) == [b"before", b"open", b"after"]
    consumer.close()
