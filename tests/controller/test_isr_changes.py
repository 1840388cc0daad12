"""AlterPartition: each reason to refuse, in Kafka's order, and the result of accepted changes."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.controller import safeguards
from odradek.controller.decision import Decision
from odradek.controller.elections import ElectionType, elect_leaders
from odradek.controller.fencing import begin_controlled_shutdown
from odradek.controller.isr_changes import alter_partition
from odradek.controller.partition_changes import Recovery
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import LOST_DIRECTORY
from odradek.protocol.messages.p43_elect_leaders import TopicPartitions
from odradek.protocol.messages.p56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from odradek.protocol.metadata_records import PartitionChangeRecord

CONFIG = BrokerConfig()


def proposal(cluster, isr, *, leader=None, name="t", index=0, epochs=None, broker_epoch=None, **fields):
    """What the leader would propose now; arguments override its fields."""
    partition = cluster.partition(name, min(index, 0))
    leader = partition.leader if leader is None else leader
    wanted = AlterPartitionRequestPartitionData(
        partition_index=index,
        leader_epoch=fields.pop("leader_epoch", partition.leader_epoch),
        partition_epoch=fields.pop("partition_epoch", partition.partition_epoch),
        new_isr_with_epochs=[
            BrokerState(broker_id=b, broker_epoch=(epochs or {}).get(b, cluster.epoch(b))) for b in isr
        ],
        **fields,
    )
    topic = AlterPartitionRequestTopicData(topic_id=cluster.image.topics[name].topic_id, partitions=[wanted])
    return AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=cluster.epoch(leader) if broker_epoch is None else broker_epoch,
        topics=[topic],
    )


def answer(cluster, request):
    response = cluster.take(alter_partition(cluster.image, request, CONFIG))
    (topic,) = response.topics
    return topic.partitions[0]


def code(cluster, request) -> ErrorCode:
    decision = alter_partition(cluster.image, request, CONFIG)
    answered = ErrorCode(decision.response.topics[0].partitions[0].error_code)
    assert not decision.records or answered in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
    return answered


def test_a_smaller_isr_changes_the_partition_epoch_but_not_the_leader_epoch(three):
    before = three.partition()
    answered = answer(three, proposal(three, [1, 2]))
    after = three.partition()
    assert (after.isr, after.leader, after.leader_epoch) == ((1, 2), 1, before.leader_epoch)
    assert after.partition_epoch == before.partition_epoch + 1
    assert (answered.error_code, answered.isr, answered.leader_id) == (0, [1, 2], 1)
    assert (answered.leader_epoch, answered.partition_epoch) == (after.leader_epoch, after.partition_epoch)


def test_an_unchanged_isr_writes_no_record(three):
    decision = alter_partition(three.image, proposal(three, [1, 2, 3]), CONFIG)
    assert decision.records == ()
    assert decision.response.topics[0].partitions[0].partition_epoch == three.partition().partition_epoch


def test_a_shrink_below_the_minimum_leaves_eligible_leaders(three):
    answer(three, proposal(three, [1]))
    assert (three.partition().isr, three.partition().elr) == ((1,), (2, 3))
    answer(three, proposal(three, [1, 2]))
    assert (three.partition().isr, three.partition().elr) == ((1, 2), ())


@pytest.mark.parametrize("epoch", ["leader_epoch", "partition_epoch"])
def test_a_proposal_with_newer_epochs_gets_not_controller(three, epoch):
    newer = {epoch: getattr(three.partition(), epoch) + 1}
    assert code(three, proposal(three, [1, 2], **newer)) is ErrorCode.NOT_CONTROLLER


def deposed(three):
    """A proposal of leader 1 that arrives after another leader was elected and leader 1 was elected again."""
    late = proposal(three, [1, 2])
    three.fence(1)
    three.unfence(1)
    return late


def test_a_deposed_leader_is_fenced(three):
    assert code(three, deposed(three)) is ErrorCode.FENCED_LEADER_EPOCH


def test_without_the_leader_epoch_check_a_deposed_leader_is_not_fenced(three, monkeypatch):
    monkeypatch.setattr(safeguards, "is_current_leader_epoch", lambda proposed, current: True)
    assert code(three, deposed(three)) is not ErrorCode.FENCED_LEADER_EPOCH


def test_only_the_leader_proposes(three):
    assert code(three, proposal(three, [1, 2], leader=2)) is ErrorCode.INVALID_REQUEST


def outdated(three):
    """The leader proposes to add 3; meanwhile 2 is fenced and returns with less data."""
    answer(three, proposal(three, [1, 2]))
    late = proposal(three, [1, 2, 3])
    three.fence(2)
    three.unfence(2)
    return late


def test_an_outdated_proposal_is_refused(three):
    assert code(three, outdated(three)) is ErrorCode.INVALID_UPDATE_VERSION


def test_without_the_partition_epoch_check_a_replica_rejoins_with_less_data(three, monkeypatch):
    monkeypatch.setattr(safeguards, "is_current_partition_epoch", lambda proposed, current: True)
    late = outdated(three)
    assert three.partition().isr == (1,)
    answer(three, late)
    assert three.partition().isr == (1, 2, 3)


def restarted(three):
    """KAFKA-14139: 3 caught up, crashed, lost unsynced records, and returned before the proposal arrived."""
    answer(three, proposal(three, [1, 2]))
    late = proposal(three, [1, 2, 3])
    three.add_broker(3, incarnation=1)
    return late


def test_another_incarnation_does_not_join(three):
    assert code(three, restarted(three)) is ErrorCode.INELIGIBLE_REPLICA


def test_without_the_broker_epoch_check_another_incarnation_joins(three, monkeypatch):
    monkeypatch.setattr(safeguards, "is_same_incarnation", lambda proposed, registered: True)
    assert code(three, restarted(three)) is ErrorCode.NONE


def test_a_fenced_stopping_or_unknown_broker_does_not_join_the_isr(three):
    three.fence(3)
    assert code(three, proposal(three, [1, 2, 3])) is ErrorCode.INELIGIBLE_REPLICA
    three.unfence(3)
    assert code(three, proposal(three, [1, 2, 3])) is ErrorCode.NONE
    three.take(begin_controlled_shutdown(three.image, BrokerId(3), three.epoch(3)))
    assert code(three, proposal(three, [1, 2, 3])) is ErrorCode.INELIGIBLE_REPLICA


def test_whose_log_is_not_known_to_be_back_does_not_join(three):
    """The controller would not elect it: as the only in-sync replica, it would leave the partition without a leader."""
    lost = [LOST_DIRECTORY if b == 2 else d for b, d in zip((1, 2, 3), three.partition().directories, strict=True)]
    record = PartitionChangeRecord(
        topic_id=three.image.topics["t"].topic_id, partition_id=0, isr=[1, 3], directories=lost
    )
    three.take(Decision(records=(record,), response=None))
    assert code(three, proposal(three, [1, 3, 2])) is ErrorCode.INELIGIBLE_REPLICA
    assert code(three, proposal(three, [1])) is ErrorCode.NONE


def test_a_version_2_proposal_has_no_broker_epochs(three):
    assert code(three, proposal(three, [1, 2], epochs={1: -1, 2: -1})) is ErrorCode.NONE
    older = proposal(three, [])
    older.topics[0].partitions[0].new_isr = [1, 2]
    assert code(three, older) is ErrorCode.NONE


@pytest.mark.parametrize("isr", [[], [2, 3], [1, 1], [1, 4]])
def test_an_isr_must_contain_the_leader_and_each_replica_once(three, isr):
    three.add_broker(4)
    assert code(three, proposal(three, isr)) is ErrorCode.INVALID_REQUEST


def test_unknown_topics_and_partitions(three):
    unknown = proposal(three, [1, 2])
    unknown.topics[0].topic_id = b"?" * 16
    assert code(three, unknown) is ErrorCode.UNKNOWN_TOPIC_ID
    assert code(three, proposal(three, [1, 2], index=1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_older_incarnation_of_the_leader_cannot_propose(three):
    with pytest.raises(KafkaError) as refused:
        alter_partition(three.image, proposal(three, [1, 2], broker_epoch=three.epoch(1) - 1), CONFIG)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_recovering_leader_is_alone_in_the_isr(three):
    assert code(three, proposal(three, [1], leader_recovery_state=Recovery.RECOVERING)) is ErrorCode.INVALID_REQUEST
    three.fence(3, 2, 1)
    three.unfence(3)
    wanted = [TopicPartitions(topic="t", partitions=[0])]
    three.take(elect_leaders(three.image, ElectionType.UNCLEAN, wanted))
    three.unfence(1)
    both = proposal(three, [3, 1], leader_recovery_state=Recovery.RECOVERING)
    assert code(three, both) is ErrorCode.INVALID_REQUEST
    answer(three, proposal(three, [3, 1], leader_recovery_state=Recovery.RECOVERED))
    assert (three.partition().isr, three.partition().recovery) == ((3, 1), Recovery.RECOVERED)


def test_a_second_change_of_a_partition_applies_to_the_result_of_the_first(three):
    twice = proposal(three, [1, 2])
    twice.topics[0].partitions.append(proposal(three, [1, 3]).topics[0].partitions[0])
    decision = alter_partition(three.image, twice, CONFIG)
    codes = [ErrorCode(p.error_code) for p in decision.response.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert len(decision.records) == 1


def test_an_isr_that_completes_a_reassignment_may_remove_its_proposer(three):
    three.add_broker(4)
    moving = PartitionChangeRecord(
        partition_id=0,
        topic_id=three.image.topics["t"].topic_id,
        replicas=[2, 3, 4, 1],
        adding_replicas=[4],
        removing_replicas=[1],
        directories=[three.image.brokers[b].directories[0] for b in (2, 3, 4, 1)],
    )
    three.take(Decision(records=(moving,), response=None))
    before = three.partition()
    answered = answer(three, proposal(three, [1, 2, 3, 4]))
    after = three.partition()
    assert answered.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (after.replicas, after.isr, after.leader) == ((2, 3, 4), (2, 3, 4), 2)
    assert (after.adding, after.removing) == ((), ())
    assert after.leader_epoch == before.leader_epoch + 1
