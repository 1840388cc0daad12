from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.controller.decision import Decision
from odradek.controller.elections import ElectionType, elect_leaders
from odradek.controller.isr_changes import alter_partition
from odradek.controller.partitions import create_partitions
from odradek.controller.reassign import alter_partition_reassignments, list_partition_reassignments
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.messages.p37_create_partitions import CreatePartitionsTopic
from odradek.protocol.messages.p43_elect_leaders import TopicPartitions
from odradek.protocol.messages.p45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.p46_list_partition_reassignments import ListPartitionReassignmentsTopics
from odradek.protocol.messages.p56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from odradek.protocol.metadata_records import ConfigRecord, PartitionChangeRecord

CONFIG = BrokerConfig()
FORMER_DISK = bytes(range(16))
UNCLEAN = "unclean.leader.election.enable"


@pytest.fixture
def five(three):
    three.add_broker(4)
    three.add_broker(5)
    return three


def move(cluster, replicas, *, index=0, name="t", may_resize=True) -> ErrorCode:
    wanted = ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
    request = AlterPartitionReassignmentsRequest(topics=[wanted], allow_replication_factor_change=may_resize)
    response = cluster.take(alter_partition_reassignments(cluster.image, request, CONFIG))
    assert response.allow_replication_factor_change == may_resize
    return ErrorCode(response.responses[0].partitions[0].error_code)


def in_sync(cluster, *isr) -> None:
    partition = cluster.partition()
    wanted = AlterPartitionRequestPartitionData(
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=cluster.epoch(b)) for b in isr],
    )
    topic = AlterPartitionRequestTopicData(topic_id=cluster.image.topics["t"].topic_id, partitions=[wanted])
    request = AlterPartitionRequest(
        broker_id=partition.leader, broker_epoch=cluster.epoch(partition.leader), topics=[topic]
    )
    cluster.take(alter_partition(cluster.image, request, CONFIG))


def moving(cluster):
    return [
        (topic.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in list_partition_reassignments(cluster.image, None).topics
        for p in topic.partitions
    ]


def test_replicas_are_added_first_and_removed_once_all_new_ones_are_in_sync(five):
    assert move(five, [4, 5, 1]) is ErrorCode.NONE
    partition = five.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((4, 5, 1, 2, 3), (1, 2, 3), 1)
    assert partition.directories == tuple(five.image.brokers[b].directories[0] for b in partition.replicas)
    assert moving(five) == [("t", 0, [4, 5, 1, 2, 3], [4, 5], [2, 3])]
    in_sync(five, 1, 2, 3, 4)
    assert moving(five)
    in_sync(five, 1, 2, 3, 4, 5)
    partition = five.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((4, 5, 1), (1, 4, 5), 1)
    assert len(partition.directories) == 3
    assert moving(five) == []


def test_removing_a_replica_increases_the_leader_epoch(five):
    before = five.partition().leader_epoch
    move(five, [1, 2, 4])
    assert five.partition().leader_epoch == before
    in_sync(five, 1, 2, 3, 4)
    assert (five.partition().leader, five.partition().leader_epoch) == (1, before + 1)


def test_reordering_replicas_completes_at_once(five):
    assert move(five, [3, 2, 1]) is ErrorCode.NONE
    assert (five.partition().replicas, five.partition().leader) == ((3, 2, 1), 1)
    assert moving(five) == []


def test_removing_replicas_waits_until_all_others_are_in_sync(five):
    five.fence(2)
    assert move(five, [1, 2]) is ErrorCode.NONE
    assert moving(five) == [("t", 0, [1, 2, 3], [], [3])]
    five.unfence(2)
    in_sync(five, 1, 3, 2)
    assert (five.partition().replicas, five.partition().isr) == ((1, 2), (1, 2))


def test_a_reassignment_can_be_cancelled(five):
    move(five, [4, 5, 1])
    in_sync(five, 1, 2, 3, 4)
    assert move(five, None) is ErrorCode.NONE
    assert (five.partition().replicas, five.partition().isr, five.partition().leader) == ((1, 2, 3), (1, 2, 3), 1)
    assert len(five.partition().directories) == 3
    assert move(five, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize(
    "who",
    [
        {"isr": [4], "leader": 4},
        {"isr": [], "eligible_leader_replicas": [4], "leader": -1},
        {"isr": [], "eligible_leader_replicas": [], "last_known_elr": [4], "leader": -1},
    ],
    ids=["in sync", "eligible", "the last that led"],
)
def test_cancelling_is_refused_when_only_a_new_replica_has_all_data(five, who):
    move(five, [4, 5, 1])
    five.take(Decision(records=(change(five, **who),), response=None))
    assert move(five, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert five.partition().adding == (4, 5)


def test_cancelling_elects_a_staying_replica_where_the_topic_allows_unclean_elections(five):
    allowed = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=UNCLEAN, value="true")
    five.take(Decision(records=(allowed,), response=None))
    move(five, [4, 5, 1])
    five.take(Decision(records=(change(five, isr=[4], leader=4),), response=None))
    assert move(five, None) is ErrorCode.NONE
    assert (five.partition().replicas, five.partition().leader) == ((1, 2, 3), 1)


def change(cluster, **fields) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=cluster.image.topics["t"].topic_id, partition_id=0, **fields)


def lie(cluster, broker_id, directory) -> None:
    record = change(
        cluster,
        directories=[
            directory if member == broker_id else where
            for member, where in zip(cluster.partition().replicas, cluster.partition().directories, strict=True)
        ],
    )
    cluster.take(Decision(records=(record,), response=None))


def test_a_reassignment_waits_until_a_remaining_replica_can_lead(five):
    """4 is in sync, but assigned to a disk that it no longer has. The leader would be removed without a successor."""
    move(five, [4])
    own = five.image.brokers[4].directories[0]
    lie(five, 4, FORMER_DISK)
    in_sync(five, 1, 2, 3, 4)
    assert (five.partition().leader, five.partition().removing) == (1, (1, 2, 3))
    lie(five, 4, own)
    in_sync(five, 1, 2, 4)
    assert (five.partition().replicas, five.partition().leader) == ((4,), 4)


def test_a_replica_on_a_new_disk_leads_again_once_it_is_in_sync(five):
    """Also without eligible leaders outside the ISR."""
    five.forget_eligible_leaders()
    five.add_broker(2, incarnation=1, disk=9)
    assert five.partition().isr == (1, 3)
    in_sync(five, 1, 3, 2)
    five.fence(1, 3)
    assert five.partition().leader == 2


def test_the_last_in_sync_replica_is_not_elected_with_another_disk_without_the_feature(five):
    five.forget_eligible_leaders()
    five.fence(2, 3)
    five.add_broker(1, incarnation=1, disk=9)
    assert (five.partition().isr, five.partition().leader) == ((1,), -1)


def test_cancelling_is_refused_when_no_remaining_replica_can_lead(five):
    move(five, [4, 5, 1])
    in_sync(five, 1, 4)
    five.take(Decision(records=(change(five, leader=4),), response=None))
    lie(five, 1, FORMER_DISK)
    assert move(five, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert five.partition().leader == 4


def test_an_unclean_election_prefers_replicas_that_were_not_just_added(five):
    five.take(Decision(records=(change(five, isr=[1]),), response=None))
    move(five, [4, 5, 2])
    five.fence(1)
    asked = [TopicPartitions(topic="t", partitions=[0])]
    five.take(elect_leaders(five.image, ElectionType.UNCLEAN, asked, CONFIG))
    assert five.partition().leader == 2


def test_partitions_added_during_a_reassignment_keep_the_replication_factor(five):
    move(five, [4, 5, 1])
    five.take(create_partitions(five.image, [CreatePartitionsTopic(name="t", count=2, assignments=None)], rng=five.rng))
    assert len(five.partition(index=1).replicas) == 3


def test_the_last_leader_is_forgotten_once_its_replica_is_removed(five):
    """Without a leader, it gets a new, empty replica: that it was the last leader no longer matters."""
    gone = change(five, isr=[], eligible_leader_replicas=[], last_known_elr=[4], leader=-1)
    five.take(Decision(records=(gone,), response=None))
    assert move(five, [4, 1, 2]) is ErrorCode.NONE
    partition = five.partition()
    assert (partition.leader, partition.isr, partition.last_known_elr) == (-1, (), ())


def test_a_reassignment_can_be_changed_before_it_completes(five):
    move(five, [4, 1, 2])
    assert move(five, [1, 2, 3]) is ErrorCode.NONE
    assert (five.partition().replicas, five.partition().adding, five.partition().removing) == ((1, 2, 3), (), ())
    move(five, [4, 1, 2])
    assert move(five, [4, 5, 1]) is ErrorCode.NONE
    assert moving(five) == [("t", 0, [4, 5, 1, 2, 3], [4, 5], [2, 3])]


@pytest.mark.parametrize("replicas", [[], [1, 1], [1, 9]])
def test_invalid_assignments_are_refused(five, replicas):
    assert move(five, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_unknown_topics_and_partitions(five):
    assert move(five, [1], name="?") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(five, [1], index=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_change_of_the_replication_factor_can_be_forbidden(five):
    assert move(five, [1, 2], may_resize=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(five, [1, 2, 4], may_resize=False) is ErrorCode.NONE
    assert move(five, [1, 2, 5], may_resize=False) is ErrorCode.NONE


def test_a_partition_named_twice_in_a_request_is_refused(five):
    twice = [ReassignablePartition(partition_index=0, replicas=[b, 2, 3]) for b in (4, 5)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=twice)])
    decision = alter_partition_reassignments(five.image, request, CONFIG)
    assert [p.error_code for p in decision.response.responses[0].partitions] == [0, ErrorCode.INVALID_REQUEST]
    assert len(decision.records) == 1


def test_only_requested_partitions_are_listed(five):
    move(five, [4, 2, 3])
    wanted = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 7]) for name in ("t", "?")]
    assert [t.name for t in list_partition_reassignments(five.image, wanted).topics] == ["t"]
    none = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[7])]
    assert list_partition_reassignments(five.image, none).topics == []
