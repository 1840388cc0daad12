"""What clients learn of topics: which, where, under which id and leader epoch."""

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


def test_in_version_0_an_empty_list_means_all_topics(wire, topic):
    """T15. Written by hand: an array of no element."""
    wire.send_frame(struct.pack(">hhihi", 3, 0, 1, -1, 0))
    assert topic.encode() in wire.receive_frame()


@pytest.mark.parametrize("version", [1, 8, 9, 13])
def test_later_null_means_all_topics_and_empty_means_none(wire, topic, version):
    """T15. By hand: -1, or a compact 0, against 0, or a compact 1."""
    flags = {1: b"", 8: b"\0\0\0", 9: b"\0\0\0\0", 13: b"\0\0\0"}[version]
    null, empty = (b"\xff\xff\xff\xff", bytes(4)) if version < 9 else (b"\0", b"\x01")
    tags = b"" if version < 9 else b"\0"
    for array, is_there in ((null, True), (empty, False)):
        wire.send_frame(struct.pack(">hhih", 3, version, 1, -1) + tags + array + flags)
        assert (topic.encode() in wire.receive_frame()) is is_there


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_an_unknown_topic_is_created_and_can_be_written_to_at_once(wire, name, version):
    """T16. Nothing sends the client away with NOT_LEADER on its first produce."""
    (created,) = wire.metadata(name, version).topics
    assert (created.error_code, created.partitions[0].error_code) == (0, 0)
    assert wire.produce(name, batch(b"first")).error_code == 0


@pytest.mark.parametrize("version", [4, 13])
def test_the_client_may_forbid_the_creation(wire, name, version):
    """T16. From version 4 on; consumers do."""
    for _ in range(2):
        (asked,) = wire.metadata(name, version, allow_auto_topic_creation=False).topics
        assert (asked.error_code, asked.partitions) == (UNKNOWN_TOPIC, [])


def test_the_broker_may_forbid_the_creation(name):
    """T16. Both must agree."""
    with Embedded(config={"auto.create.topics.enable": "false"}) as broker, Wire(broker.port) as wire:
        assert wire.metadata(name, 4).topics[0].error_code == UNKNOWN_TOPIC
        assert names(wire, MetadataRequest(topics=None), 4) == []


@pytest.mark.parametrize("wrong", ["", ".", "..", "with space", "ü", "x" * 250])
def test_an_impossible_name_is_called_so_and_not_created(wire, wrong):
    """T16. Otherwise the client waits for ever for it to appear."""
    (asked,) = wire.metadata(wrong, 4).topics
    assert (asked.name, asked.error_code) == (wrong, INVALID_TOPIC)
    assert wrong not in names(wire, MetadataRequest(topics=None), 4)


def test_the_controller_is_a_broker_that_clients_can_reach(wire):
    """T17. Admin clients send what they want changed to that id."""
    answer = wire.ask(MetadataRequest(topics=[]), 12)
    assert answer.controller_id in [broker.node_id for broker in answer.brokers]


def test_a_topic_has_one_id_as_long_as_it_lives_and_everything_can_be_asked_by_it(wire, topic):
    """T18. Fetch 13, Produce 13, OffsetCommit 10 know topics by nothing else."""
    topic_id = wire.topic_id(topic)
    assert topic_id != bytes(16)
    assert wire.metadata(topic, 10).topics[0].topic_id == topic_id
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
    (answer,) = wire.ask(by_id, 12).topics
    assert (answer.name, answer.error_code, len(answer.partitions)) == (topic, 0, 1)
    assert wire.produce(topic, batch(b"by id"), version=13).error_code == 0
    assert wire.fetch(topic, {0: 0}, version=13)[0].high_watermark == 1


def test_a_topic_made_anew_has_a_new_id_and_the_old_one_is_unknown(wire, topic):
    """T18. Otherwise a consumer would go on in another topic's records."""
    old = wire.topic_id(topic)
    wire.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 5)
    wire.create_topic(topic)
    assert wire.metadata(topic, 12).topics[0].topic_id not in (old, bytes(16))
    (answer,) = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=old, name=None)]), 12).topics
    assert (answer.error_code, answer.name, answer.topic_id) == (UNKNOWN_TOPIC_ID, None, old)
    assert wire.fetch(topic, {0: 0}, version=13)[0].error_code == UNKNOWN_TOPIC_ID
    assert wire.produce(topic, batch(b"late"), version=13).error_code == UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_in_requests_are_refused_where_they_did_not_work_yet(wire, topic, version):
    """T18. The field is there since version 10, but means something since 12; as in Kafka, each topic says so."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=wire.topic_id(topic), name=None)])
    (answer,) = wire.ask(asked, version).topics
    assert answer.error_code == INVALID_REQUEST


def test_the_leader_epoch_grows_with_each_start(tmp_path, name):
    """T19. Clients drop metadata with an older one; a crashed leader may have promised what it lost."""
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
def test_the_cluster_has_an_id_and_operations_are_told_only_when_asked_for(wire, topic, version):
    """T21. Zero would mean: you may do nothing."""
    answer = wire.metadata(topic, version)
    assert answer.cluster_id
    assert answer.cluster_authorized_operations == NOT_ASKED_FOR
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    if version >= 8:
        answer = wire.metadata(topic, version, include_topic_authorized_operations=True)
        assert answer.topics[0].topic_authorized_operations > 0


def test_a_partition_that_a_topic_does_not_have_is_unknown_everywhere(wire, topic):
    """T20, the half that one broker can show: UNKNOWN_TOPIC_OR_PARTITION, so that the client refreshes and gives up."""
    assert wire.produce(topic, batch(b"x"), partition=1).error_code == UNKNOWN_TOPIC
    assert wire.fetch(topic, {1: 0})[1].error_code == UNKNOWN_TOPIC
    beyond = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=1, timestamp=-1)])
    (answer,) = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[beyond]), 4).topics
    assert answer.partitions[0].error_code == UNKNOWN_TOPIC
