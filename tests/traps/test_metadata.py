"""Topic metadata for clients: names, leaders, ids and leader epochs."""

from __future__ import annotations

import struct

import pytest

from odradek.protocol.messages.p02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.p20_delete_topics import DeleteTopicsRequest
from odradek.testing import Embedded
from traps.wire import Wire, batch

UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_REQUEST, UNKNOWN_TOPIC_ID = 3, 17, 42, 100
NOT_ASKED_FOR = -(2**31)


def names(wire: Wire, request: MetadataRequest, version: int) -> list[str]:
    return [topic.name for topic in wire.ask(request, version).topics]


def test_metadata_version_0_with_an_empty_list_returns_all_topics(wire, topic):
    """T15. Hand-written: an array without elements."""
    wire.send_frame(struct.pack(">hhihi", 3, 0, 1, -1, 0))
    assert topic.encode() in wire.receive_frame()


@pytest.mark.parametrize("version", [1, 8, 9, 13])
def test_later_metadata_versions_null_returns_all_topics_and_empty_none(wire, topic, version):
    """T15. Hand-written: null is -1 or a compact 0, empty is 0 or a compact 1."""
    flags = {1: b"", 8: b"\0\0\0", 9: b"\0\0\0\0", 13: b"\0\0\0"}[version]
    null, empty = (b"\xff\xff\xff\xff", bytes(4)) if version < 9 else (b"\0", b"\x01")
    tags = b"" if version < 9 else b"\0"
    for array, is_there in ((null, True), (empty, False)):
        wire.send_frame(struct.pack(">hhih", 3, version, 1, -1) + tags + array + flags)
        assert (topic.encode() in wire.receive_frame()) is is_there


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_an_unknown_topic_is_created_and_can_be_written_to_at_once(wire, name, version):
    """T16. The first produce of the client does not fail with NOT_LEADER."""
    (created,) = wire.metadata(name, version).topics
    assert (created.error_code, created.partitions[0].error_code) == (0, 0)
    assert wire.produce(name, batch(b"first")).error_code == 0


@pytest.mark.parametrize("version", [4, 13])
def test_client_can_disable_topic_auto_creation(wire, name, version):
    """T16. From version 4 on. Consumers do this."""
    for _ in range(2):
        (asked,) = wire.metadata(name, version, allow_auto_topic_creation=False).topics
        assert (asked.error_code, asked.partitions) == (UNKNOWN_TOPIC, [])


def test_broker_can_disable_topic_auto_creation(name):
    """T16. A topic is created only if client and broker allow it."""
    with Embedded(config={"auto.create.topics.enable": "false"}) as broker, Wire(broker.port) as wire:
        assert wire.metadata(name, 4).topics[0].error_code == UNKNOWN_TOPIC
        assert names(wire, MetadataRequest(topics=None), 4) == []


@pytest.mark.parametrize("wrong", ["", ".", "..", "with space", "ü", "x" * 250])
def test_invalid_topic_name_is_an_error_and_not_created(wire, wrong):
    """T16. Otherwise the client would wait for the topic forever."""
    (asked,) = wire.metadata(wrong, 4).topics
    assert (asked.name, asked.error_code) == (wrong, INVALID_TOPIC)
    assert wrong not in names(wire, MetadataRequest(topics=None), 4)


def test_controller_id_in_metadata_is_a_reachable_broker(wire):
    """T17. Admin clients send their changes to that broker."""
    answer = wire.ask(MetadataRequest(topics=[]), 12)
    assert answer.controller_id in [broker.node_id for broker in answer.brokers]


def test_topic_keeps_its_id_and_requests_can_use_it(wire, topic):
    """T18. Fetch 13, Produce 13 and OffsetCommit 10 identify topics only by id."""
    topic_id = wire.topic_id(topic)
    assert topic_id != bytes(16)
    assert wire.metadata(topic, 10).topics[0].topic_id == topic_id
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    (answer,) = wire.ask(by_id, 12).topics
    assert (answer.name, answer.error_code, len(answer.partitions)) == (topic, 0, 1)
    assert wire.produce(topic, batch(b"by id"), version=13).error_code == 0
    assert wire.fetch(topic, {0: 0}, version=13)[0].high_watermark == 1


def test_recreated_topic_has_a_new_id_and_the_old_id_is_unknown(wire, topic):
    """T18. Otherwise a consumer would continue with records of another topic."""
    old = wire.topic_id(topic)
    wire.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 5)
    wire.create_topic(topic)
    assert wire.metadata(topic, 12).topics[0].topic_id not in (old, bytes(16))
    (answer,) = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=old, name=None)]), 12).topics
    assert (answer.error_code, answer.name, answer.topic_id) == (UNKNOWN_TOPIC_ID, None, old)
    assert wire.fetch(topic, {0: 0}, version=13)[0].error_code == UNKNOWN_TOPIC_ID
    assert wire.produce(topic, batch(b"late"), version=13).error_code == UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_in_metadata_requests_are_refused_before_version_12(wire, topic, version):
    """T18. The field exists since version 10, but works since 12. As in Kafka, each topic gets an error."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=wire.topic_id(topic), name=None)])
    (answer,) = wire.ask(asked, version).topics
    assert answer.error_code == INVALID_REQUEST


def test_leader_epoch_increases_with_each_broker_start(tmp_path, name):
    """T19. Clients ignore metadata with an older epoch. A crashed leader may have lost acknowledged records."""
    told = []
    for start in range(3):
        with Embedded(data=tmp_path) as broker, Wire(broker.port) as wire:
            if start == 0:
                wire.create_topic(name)
            told.append(wire.metadata(name, 7).topics[0].partitions[0].leader_epoch)
            assert wire.produce(name, batch(b"x")).error_code == 0
            latest = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])
            (answer,) = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[latest]), 4).topics
            assert (answer.partitions[0].offset, answer.partitions[0].leader_epoch) == (start + 1, told[-1])
    assert told == sorted(set(told))


@pytest.mark.parametrize("version", [2, 8, 10, 12])
def test_metadata_has_a_cluster_id_and_operations_only_on_request(wire, topic, version):
    """T21. Zero would mean that the client may do nothing."""
    answer = wire.metadata(topic, version)
    assert answer.cluster_id
    assert answer.cluster_authorized_operations == NOT_ASKED_FOR
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    if version >= 8:
        answer = wire.metadata(topic, version, include_topic_authorized_operations=True)
        assert answer.topics[0].topic_authorized_operations > 0


def test_nonexistent_partition_is_unknown_in_every_api(wire, topic):
    """T20, the part for one broker: UNKNOWN_TOPIC_OR_PARTITION, so that the client refreshes metadata and gives up."""
    assert wire.produce(topic, batch(b"x"), partition=1).error_code == UNKNOWN_TOPIC
    assert wire.fetch(topic, {1: 0})[1].error_code == UNKNOWN_TOPIC
    beyond = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=1, timestamp=-1)])
    (answer,) = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[beyond]), 4).topics
    assert answer.partitions[0].error_code == UNKNOWN_TOPIC
