from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.controller.directories import assign_replicas_to_dirs
from odradek.controller.fencing import unregister_broker
from odradek.metadata.configs.broker import BrokerConfig
from odradek.protocol.messages.p73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)

CONFIG = BrokerConfig()
LOST = bytes(15) + b"\x02"


def assign(cluster, broker_id, directory, *, topic_id=None, index=0, broker_epoch=None) -> ErrorCode:
    topic = AssignReplicasToDirsRequestTopicData(
        topic_id=cluster.image.topics["t"].topic_id if topic_id is None else topic_id,
        partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=index)],
    )
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epoch(broker_id) if broker_epoch is None else broker_epoch,
        directories=[AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[topic])],
    )
    response = cluster.take(assign_replicas_to_dirs(cluster.image, request, CONFIG))
    return ErrorCode(response.directories[0].topics[0].partitions[0].error_code)


def test_a_broker_assigns_its_replicas_to_directories(three):
    own = three.image.brokers[2].directories[0]
    before = three.partition()
    assert assign(three, 2, own) is ErrorCode.NONE
    assert three.partition() == before
    assert assign(three, 2, LOST) is ErrorCode.NONE
    assert assign(three, 2, own) is ErrorCode.NONE
    assert three.partition().directories == before.directories


def test_a_replica_on_a_failed_disk_leaves_leadership_and_isr(three):
    assert assign(three, 1, LOST) is ErrorCode.NONE
    partition = three.partition()
    assert (partition.leader, partition.isr, partition.directories[0]) == (2, (2, 3), LOST)


def test_the_last_in_sync_replica_leads_again_when_its_failed_log_is_back(three):
    own = three.image.brokers[1].directories[0]
    assert assign(three, 2, LOST) is ErrorCode.NONE
    assert assign(three, 3, LOST) is ErrorCode.NONE
    assert assign(three, 1, LOST) is ErrorCode.NONE
    assert three.partition().leader == -1
    epoch = three.partition().leader_epoch
    assert assign(three, 1, own) is ErrorCode.NONE
    partition = three.partition()
    assert (partition.leader, partition.isr, partition.recovery) == (1, (1,), 0)
    assert partition.leader_epoch > epoch


def test_a_failed_log_is_not_lost_when_its_broker_restarts(three):
    own = three.image.brokers[1].directories[0]
    for broker_id in (2, 3, 1):
        assert assign(three, broker_id, LOST) is ErrorCode.NONE
    three.add_broker(1, incarnation=1, clean=True)
    assert three.partition().leader == -1
    assert assign(three, 1, own) is ErrorCode.NONE
    assert three.partition().leader == 1


def test_a_failed_log_is_lost_when_its_brokers_disks_are_unknown(three):
    """The broker was unregistered and returned with an empty disk: as the last leader it would truncate the others."""
    for broker_id in (2, 3, 1):
        assert assign(three, broker_id, LOST) is ErrorCode.NONE
    three.add_broker(3, incarnation=1)
    assert (three.partition().elr, three.partition().last_known_elr) == ((1,), (1,))
    three.fence(1)
    three.take(unregister_broker(three.image, BrokerId(1)))
    three.add_broker(1, incarnation=1, disk=9)
    assert assign(three, 1, three.image.brokers[1].directories[0]) is ErrorCode.NONE
    partition = three.partition()
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), ())


def test_what_is_refused(three):
    three.add_broker(4)
    own = three.image.brokers[1].directories[0]
    assert assign(three, 1, own, topic_id=b"?" * 16) is ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(three, 1, own, index=5) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(three, 4, own) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as refused:
        assign(three, 1, own, broker_epoch=0)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
