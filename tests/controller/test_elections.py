from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, BrokerId
from odradek.controller.balance import balance_interval_ms, balance_leaders
from odradek.controller.configs import Operation, incremental_alter_configs
from odradek.controller.decision import Decision
from odradek.controller.elections import ElectionType, elect_leaders, elected_outside_isr
from odradek.controller.fencing import begin_controlled_shutdown, lose_directories, unregister_broker
from odradek.controller.partition_changes import Recovery
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ImageDelta, TopicChange
from odradek.protocol.messages import p44_incremental_alter_configs as p44
from odradek.protocol.messages.p43_elect_leaders import TopicPartitions
from odradek.protocol.metadata_records import PartitionChangeRecord

CONFIG = BrokerConfig()
T0 = [TopicPartitions(topic="t", partitions=[0])]


def shape(cluster, name="t", index=0):
    partition = cluster.partition(name, index)
    return partition.leader, partition.isr, partition.elr


def elect(cluster, election):
    (result,) = cluster.take(elect_leaders(cluster.image, election, T0, CONFIG))
    return ErrorCode(result.partition_result[0].error_code)


def configure(cluster, name, value, resource_type=TOPIC_RESOURCE, resource="t"):
    operation = Operation.DELETE if value is None else Operation.SET
    change = p44.AlterableConfig(name=name, config_operation=operation, value=value)
    wanted = p44.AlterConfigsResource(resource_type=resource_type, resource_name=resource, configs=[change])
    (outcome,) = cluster.take(incremental_alter_configs(cluster.image, [wanted]))
    return outcome.error_code


# Eligible leaders (KIP-966)


def test_a_replica_that_leaves_a_small_isr_stays_eligible(three):
    three.fence(3)
    assert shape(three) == (1, (1, 2), ())  # two are enough: they acknowledge without broker 3
    three.fence(2)
    assert shape(three) == (1, (1,), (2,))
    three.fence(1)
    assert shape(three) == (NO_BROKER, (), (2, 1))
    assert three.partition().last_known_elr == (1,)


def test_an_eligible_replica_is_elected_cleanly_when_the_isr_is_empty(three):
    three.fence(3, 2, 1)
    three.unfence(3)
    assert shape(three)[0] == NO_BROKER  # it lacks records that 1 and 2 acknowledged without it
    three.unfence(2)
    assert shape(three) == (2, (2,), (1,))
    assert three.partition().recovery == Recovery.RECOVERED
    assert three.partition().last_known_elr == ()


def test_the_elr_is_empty_while_the_isr_is_large_enough(three):
    three.add_topic("u", [1, 2, 3], min_isr=1)
    three.fence(2, 3)
    assert shape(three, "u") == (1, (1,), ())


def test_min_insync_replicas_is_capped_at_the_number_of_replicas(three):
    three.add_topic("u", [1], min_isr=2)
    assert shape(three, "u") == (1, (1,), ())
    three.add_topic("v", [1, 2], min_isr=3)
    three.fence(1)
    assert shape(three, "v") == (2, (2,), (1,))


def test_after_an_unclean_stop_the_replica_is_not_eligible(three):
    three.fence(3, 2)
    three.add_broker(2, incarnation=1, unfence=False)
    assert shape(three) == (1, (1,), ())


def test_after_a_clean_stop_the_replica_stays_eligible(three):
    three.fence(3, 2)
    three.add_broker(2, incarnation=1, unfence=False, clean=True)
    assert shape(three) == (1, (1,), (2,))


def test_when_all_stopped_uncleanly_only_the_last_leader_is_elected_and_recovers(three):
    three.fence(3, 2, 1)
    for broker_id in (3, 2):
        three.add_broker(broker_id, incarnation=1)
    assert shape(three)[0] == NO_BROKER
    three.add_broker(1, incarnation=1)
    assert shape(three) == (1, (1,), ())
    assert three.partition().recovery == Recovery.RECOVERING


def test_a_last_leader_that_lost_its_disk_needs_an_unclean_election(three):
    three.fence(3, 2, 1)
    for broker_id in (3, 2):
        three.add_broker(broker_id, incarnation=1)
    three.add_broker(1, incarnation=1, disk=9)
    assert shape(three) == (NO_BROKER, (), ())
    assert three.partition().last_known_elr == ()
    assert three.partition().directories[0] == three.image.brokers[1].directories[0]
    assert elect(three, ElectionType.UNCLEAN) is ErrorCode.NONE
    assert three.partition().recovery == Recovery.RECOVERING


def test_a_replica_on_a_lost_disk_leaves_the_isr_even_after_a_clean_stop(three):
    three.add_broker(2, incarnation=1, clean=True, disk=9)
    assert shape(three) == (1, (1, 3), ())
    three.fence(3)
    three.add_broker(1, incarnation=1, clean=True, disk=9)
    assert shape(three) == (NO_BROKER, (), (3,))


def test_lowering_min_insync_replicas_without_a_leader_limits_the_elr_at_the_next_election(three):
    """The next leader acknowledges alone from its first record: the others fall behind unnoticed."""
    three.fence(3, 2, 1)
    assert configure(three, "min.insync.replicas", "1") == ErrorCode.NONE
    assert shape(three) == (NO_BROKER, (), (2, 1))
    three.unfence(2)
    assert shape(three) == (2, (2,), ())


def test_lowering_min_insync_replicas_clears_the_elr(three):
    three.fence(3, 2)
    before = three.partition().partition_epoch
    assert configure(three, "min.insync.replicas", "1") == ErrorCode.NONE
    assert shape(three) == (1, (1,), ())
    assert three.partition().partition_epoch > before


def test_a_new_min_insync_replicas_starts_a_new_partition_epoch(three):
    before = three.partition().partition_epoch
    assert configure(three, "min.insync.replicas", "3") == ErrorCode.NONE
    assert three.partition().partition_epoch > before


def test_the_clusters_min_insync_replicas_applies_to_topics_without_their_own(three):
    assert configure(three, "min.insync.replicas", None) == ErrorCode.NONE
    three.add_topic("own", [1, 2, 3], min_isr=2)
    epochs = three.partition().partition_epoch, three.partition("own").partition_epoch
    assert configure(three, "min.insync.replicas", "3", BROKER_RESOURCE, "") == ErrorCode.NONE
    assert (three.partition().partition_epoch, three.partition("own").partition_epoch) == (epochs[0] + 1, epochs[1])


def test_min_insync_replicas_is_one_value_for_the_cluster(three):
    assert configure(three, "min.insync.replicas", "2", BROKER_RESOURCE, "1") == ErrorCode.INVALID_CONFIG
    assert configure(three, "min.insync.replicas", "2", BROKER_RESOURCE, "") == ErrorCode.NONE
    assert configure(three, "min.insync.replicas", None, BROKER_RESOURCE, "") == ErrorCode.INVALID_CONFIG


def test_without_the_feature_the_isr_is_never_empty(empty):
    empty.forget_eligible_leaders()
    for broker_id in (1, 2):
        empty.add_broker(broker_id)
    empty.add_topic("t", [1, 2], min_isr=2)
    empty.fence(1, 2)
    assert shape(empty) == (NO_BROKER, (2,), ())
    empty.unfence(1)
    assert shape(empty)[0] == NO_BROKER
    empty.unfence(2)
    assert shape(empty) == (2, (2,), ())


def test_without_the_feature_a_leftover_elr_is_ignored_beside_an_isr(three):
    three.fence(3, 2)
    three.forget_eligible_leaders()
    assert shape(three) == (1, (1,), (2,))
    three.unfence(2)
    three.fence(1)
    assert shape(three) == (NO_BROKER, (1,), ())


def test_without_the_feature_a_leftover_elr_is_used_while_the_isr_is_empty(three):
    three.fence(3, 2, 1)
    three.forget_eligible_leaders()
    three.unfence(2)
    assert shape(three) == (2, (2,), ())


# Unclean elections


def test_topics_that_allow_unclean_elections_get_any_live_leader(three):
    three.add_topic("u", [1, 2], unclean=True)
    three.fence(2, 1)
    three.add_broker(1, incarnation=1, unfence=False)
    three.unfence(2)
    assert (three.partition("u").leader, three.partition("u").recovery) == (2, Recovery.RECOVERING)


def test_allowing_unclean_elections_elects_a_leader_at_once(three):
    three.fence(3, 2, 1)
    three.unfence(3)
    configure(three, "unclean.leader.election.enable", "false")
    assert shape(three)[0] == NO_BROKER
    configure(three, "unclean.leader.election.enable", "true")
    assert shape(three) == (3, (3,), ())
    assert three.partition().recovery == Recovery.RECOVERING


def test_an_operator_may_request_an_unclean_election(three):
    three.fence(3, 2, 1)
    assert elect(three, ElectionType.UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    three.unfence(3)
    assert elect(three, ElectionType.UNCLEAN) is ErrorCode.NONE
    assert shape(three) == (3, (3,), ())


def told_outside_isr(cluster, step):
    before = cluster.image.topics["t"]
    step()
    delta = ImageDelta(changed=(TopicChange(before, cluster.image.topics["t"]),))
    return [each[1:] for each in elected_outside_isr(delta)]


def test_an_election_inside_the_isr_is_not_told(three):
    assert told_outside_isr(three, lambda: three.fence(1)) == []
    assert shape(three)[0] == 2


def test_an_election_outside_the_isr_says_whether_the_leader_was_eligible(three):
    three.fence(3, 2, 1)
    assert told_outside_isr(three, lambda: three.unfence(2)) == [(0, 2, True)]


def test_an_unclean_election_says_that_the_leader_was_not_eligible(three):
    three.fence(3, 2, 1)
    three.unfence(3)
    assert told_outside_isr(three, lambda: elect(three, ElectionType.UNCLEAN)) == [(0, 3, False)]


# Preferred leaders


def test_the_first_replica_leads_again_once_it_is_in_sync(three):
    assert elect(three, ElectionType.PREFERRED) is ErrorCode.ELECTION_NOT_NEEDED
    three.fence(1)
    three.unfence(1)
    assert elect(three, ElectionType.PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert three.take(balance_leaders(three.image, CONFIG)) is False
    assert shape(three)[0] == 2


def test_balance_moves_a_bounded_number_of_leaders(three):
    three.add_topic("u", *[[1, 2]] * 4, unclean=False)
    three.take(begin_controlled_shutdown(three.image, BrokerId(1), three.epoch(1)))
    three.add_broker(1, incarnation=1, clean=True)
    assert [shape(three, "u", index)[0] for index in range(4)] == [2] * 4
    topic_id = three.image.topics["u"].topic_id
    joined = [PartitionChangeRecord(partition_id=n, topic_id=topic_id, isr=[2, 1]) for n in range(4)]
    three.take(Decision(records=tuple(joined), response=None))
    assert three.take(balance_leaders(three.image, CONFIG, most=3)) is True
    assert three.take(balance_leaders(three.image, CONFIG, most=3)) is False
    assert [shape(three, "u", index)[0] for index in range(4)] == [1] * 4


def test_balance_can_be_off():
    assert balance_interval_ms(BrokerConfig()) == 300_000
    assert balance_interval_ms(BrokerConfig.parse({"auto.leader.rebalance.enable": "false"})) is None


# Leaving


def test_a_broker_in_controlled_shutdown_leaves_leadership_and_isrs(three):
    three.take(begin_controlled_shutdown(three.image, BrokerId(1), three.epoch(1)))
    assert shape(three) == (2, (2, 3), ())
    assert three.image.brokers[1].in_controlled_shutdown
    again = begin_controlled_shutdown(three.image, BrokerId(1), three.epoch(1))
    assert again.records == ()


def test_a_heartbeat_during_controlled_shutdown_does_not_restore_leadership(three):
    three.add_topic("alone", [1])
    three.take(begin_controlled_shutdown(three.image, BrokerId(1), three.epoch(1)))
    three.fence(1)
    three.unfence(1)
    assert shape(three, "alone")[0] == NO_BROKER
    three.add_broker(1, incarnation=1, clean=True)
    assert shape(three, "alone")[0] == 1


def test_an_unregistered_broker_is_unknown(three):
    with pytest.raises(KafkaError) as refused:
        unregister_broker(three.image, BrokerId(1))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    three.fence(1)
    three.take(unregister_broker(three.image, BrokerId(1)))
    assert 1 not in three.image.brokers
    assert shape(three) == (2, (2, 3), ())
    with pytest.raises(KafkaError) as refused:
        unregister_broker(three.image, BrokerId(1))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_failed_disk_affects_only_its_own_replicas(three):
    spare = bytes([7]) * 16
    broker = three.image.brokers[1]
    brokers = {**three.image.brokers, 1: replace(broker, directories=(*broker.directories, spare))}
    three.image = replace(three.image, brokers=brokers)
    assert lose_directories(three.image, BrokerId(1), [bytes(16)]).records == ()
    three.take(lose_directories(three.image, BrokerId(1), [broker.directories[0]]))
    assert shape(three) == (2, (2, 3), ())
    assert three.image.brokers[1].directories == (spare,)
    assert not three.image.brokers[1].fenced


def test_a_broker_without_any_disk_is_fenced(three):
    three.take(lose_directories(three.image, BrokerId(1), three.image.brokers[1].directories))
    assert three.image.brokers[1].fenced
    assert shape(three) == (2, (2, 3), ())
