from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from odradek.controller.activation import activate
from odradek.controller.brokers import (
    Registration,
    register_broker,
    register_controller,
    registration_of,
)
from odradek.controller.decision import Decision
from odradek.controller.elections import ElectionType, elect_leaders
from odradek.controller.fencing import unfence_broker
from odradek.controller.producer_ids import allocate_producer_ids
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.features import bootstrap_records
from odradek.metadata.image import BROKER_RESOURCE, ClusterImage, FeatureRange, Listener
from odradek.protocol.messages import p62_broker_registration as p62
from odradek.protocol.messages import p70_controller_registration as p70
from odradek.protocol.messages.p19_create_topics import CreatableTopic
from odradek.protocol.messages.p43_elect_leaders import TopicPartitions
from odradek.protocol.messages.p62_broker_registration import BrokerRegistrationRequest
from odradek.protocol.messages.p70_controller_registration import ControllerRegistrationRequest
from odradek.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)

ME = Registration(
    broker_id=BrokerId(1),
    cluster_id="cluster",
    incarnation_id=b"1" * 16,
    listeners=(Listener("PLAINTEXT", "localhost", 9092, 0),),
    directories=(DirectoryId(b"d" * 16),),
)


def create(cluster, name, replication=1, partitions=1):
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication)
    cluster.take(create_topics(cluster.image, [topic], defaults=TopicDefaults(), rng=cluster.rng))


def leadership(cluster, name):
    return [(p.leader, p.isr, p.leader_epoch) for p in cluster.image.topics[name].partitions]


def test_the_broker_epoch_is_the_offset_of_its_registration(empty):
    before = empty.image.offset
    assert empty.take(register_broker(empty.image, ME)) == before + 1
    broker = empty.image.brokers[1]
    assert (broker.broker_epoch, broker.fenced, broker.active) == (before + 1, True, False)
    empty.take(unfence_broker(empty.image, BrokerId(1), broker.broker_epoch))
    assert empty.image.brokers[1].active


def test_the_same_incarnation_keeps_its_epoch_and_stays_unfenced(empty):
    epoch = empty.take(register_broker(empty.image, ME))
    empty.take(unfence_broker(empty.image, BrokerId(1), epoch))
    moved = replace(ME, listeners=(Listener("PLAINTEXT", "localhost", 9999, 0),))
    assert empty.take(register_broker(empty.image, moved)) == epoch
    assert empty.image.brokers[1].active
    assert empty.image.brokers[1].listeners[0].port == 9999


def test_a_restarted_broker_leads_its_partitions_in_new_leader_epochs(cluster):
    create(cluster, "t", partitions=2)
    assert leadership(cluster, "t") == [(1, (1,), 0)] * 2
    epoch = cluster.add_broker(1, unfence=False, incarnation=1)
    assert leadership(cluster, "t") == [(-1, (), 1)] * 2
    cluster.take(unfence_broker(cluster.image, BrokerId(1), epoch))
    assert leadership(cluster, "t") == [(1, (1,), 2)] * 2


def test_fencing_a_leader_elects_an_in_sync_replica(empty):
    empty.add_broker(1)
    empty.add_broker(2)
    create(empty, "t", replication=2, partitions=2)
    empty.add_broker(1, unfence=False, incarnation=1)
    assert [(leader, isr) for leader, isr, _ in leadership(empty, "t")] == [(2, (2,))] * 2


def test_invalid_registrations_are_refused(empty):
    empty.take(register_broker(empty.image, ME))
    refused = {
        ErrorCode.INCONSISTENT_CLUSTER_ID: replace(ME, cluster_id="other"),
        ErrorCode.INVALID_REGISTRATION: replace(ME, broker_id=BrokerId(2)),
        ErrorCode.UNSUPPORTED_VERSION: replace(ME, features={"metadata.version": FeatureRange(1, 7)}),
    }
    for code, registration in refused.items():
        with pytest.raises(KafkaError) as error:
            register_broker(empty.image, registration)
        assert error.value.code is code
    for directories in ((), ME.directories * 2, (DirectoryId(bytes(16)),)):
        with pytest.raises(KafkaError) as error:
            register_broker(empty.image, replace(ME, directories=directories))
        assert error.value.code is ErrorCode.INVALID_REGISTRATION


def test_a_second_broker_with_the_same_id_is_refused_while_the_first_has_a_session(empty):
    empty.take(register_broker(empty.image, ME))
    stranger = replace(ME, incarnation_id=b"2" * 16, directories=(DirectoryId(b"e" * 16),))
    with pytest.raises(KafkaError) as refused:
        register_broker(empty.image, stranger, has_session=True)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register_broker(empty.image, stranger).records
    assert register_broker(empty.image, ME, has_session=True).records


def test_a_restarted_broker_with_the_same_directory_registers_at_once(empty):
    """It need not wait until the session of its dead predecessor expires."""
    empty.take(register_broker(empty.image, ME))
    successor = replace(ME, incarnation_id=b"2" * 16)
    epoch = empty.take(register_broker(empty.image, successor, has_session=True))
    assert empty.image.brokers[1].broker_epoch == epoch == empty.image.offset


def test_a_delayed_registration_of_a_dead_process_does_not_replace_its_successor(empty):
    """A process was killed while it registered: the kernel may still deliver its request seconds later."""
    late, living = ME, replace(ME, incarnation_id=b"2" * 16)
    empty.take(register_broker(empty.image, living))
    with pytest.raises(KafkaError) as refused:
        register_broker(empty.image, late, has_session=True, is_heard=True)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register_broker(empty.image, living, has_session=True, is_heard=True).records


def test_registration_requests_are_decoded(empty):
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="cluster",
        incarnation_id=b"1" * 16,
        listeners=[p62.Listener(name="PLAINTEXT", host="localhost", port=9092)],
        features=[
            p62.Feature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in ME.features.items()
        ],
        rack=None,
        log_dirs=[b"d" * 16],
    )
    assert registration_of(request) == ME
    other = ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=b"7" * 16,
        listeners=[p70.Listener(name="CONTROLLER", host="seven", port=9093)],
        features=[
            p70.Feature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in ME.features.items()
        ],
    )
    empty.take(register_controller(empty.image, other))
    assert empty.image.controllers[7].listeners == (Listener("CONTROLLER", "seven", 9093, 0),)
    other.features = []
    with pytest.raises(KafkaError) as refused:
        register_controller(empty.image, other)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "kafka\0", ""])
def test_a_node_with_an_impossible_host_is_not_registered(empty, host):
    """All other nodes would try to connect to it."""
    with pytest.raises(KafkaError, match="cannot be the host of a node") as refused:
        register_broker(empty.image, replace(ME, listeners=(*ME.listeners, Listener("OTHER", host, 9092, 0))))
    assert refused.value.code is ErrorCode.INVALID_REGISTRATION
    request = ControllerRegistrationRequest(
        controller_id=7, incarnation_id=b"7" * 16, listeners=[p70.Listener(name="CONTROLLER", host=host, port=9093)]
    )
    with pytest.raises(KafkaError, match="cannot be the host of a node") as refused:
        register_controller(empty.image, request)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_requests_of_an_older_incarnation_are_refused(cluster):
    old = cluster.image.brokers[1].broker_epoch
    cluster.add_broker(1, incarnation=1)
    for act in (unfence_broker, allocate_producer_ids):
        with pytest.raises(KafkaError) as error:
            act(cluster.image, BrokerId(1), old)
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_blocks_of_producer_ids_follow_each_other(cluster):
    epoch = cluster.image.brokers[1].broker_epoch
    blocks = [cluster.take(allocate_producer_ids(cluster.image, BrokerId(1), epoch)) for _ in range(3)]
    assert blocks == [range(1000), range(1000, 2000), range(2000, 3000)]


def test_elections_on_one_broker_are_not_needed(cluster):
    create(cluster, "t")
    wanted = [TopicPartitions(topic="t", partitions=[0, 9]), TopicPartitions(topic="u", partitions=[0])]
    for election in ElectionType:
        decision = elect_leaders(cluster.image, election, wanted)
        assert decision.records == ()
        assert [[p.error_code for p in r.partition_result] for r in decision.response] == [
            [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        ]
        everything = elect_leaders(cluster.image, election, None).response
        assert [(r.topic, r.partition_result) for r in everything] == [("t", [])]


def test_a_preferred_election_restores_the_first_replica_as_leader(empty):
    empty.add_broker(1)
    empty.add_broker(2)
    create(empty, "t", replication=2, partitions=1)
    first, second = empty.image.topics["t"].partitions[0].replicas
    empty.add_broker(first, incarnation=1)
    wanted = [TopicPartitions(topic="t", partitions=[0])]
    (result,) = empty.take(elect_leaders(empty.image, ElectionType.PREFERRED, wanted))
    assert result.partition_result[0].error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert empty.image.topics["t"].partitions[0].leader == second


def test_an_unclean_election_needs_that_no_in_sync_replica_is_alive(empty):
    empty.add_broker(1)
    empty.add_broker(2)
    create(empty, "t", replication=2, partitions=1)
    first, second = empty.image.topics["t"].partitions[0].replicas
    empty.add_broker(first, incarnation=1)
    empty.add_broker(second, incarnation=1, unfence=False)
    wanted = [TopicPartitions(topic="t", partitions=[0])]
    empty.take(elect_leaders(empty.image, ElectionType.UNCLEAN, wanted))
    partition = empty.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.recovery) == (first, (first,), 1)


def test_an_empty_log_gets_the_bootstrap_records_in_a_transaction():
    decision = activate(ClusterImage(cluster_id="c"), bootstrap_records())
    assert [type(r) for r in decision.records] == [
        BeginTransactionRecord,
        FeatureLevelRecord,
        FeatureLevelRecord,
        FeatureLevelRecord,
        ConfigRecord,
        EndTransactionRecord,
    ]


def test_with_eligible_leaders_min_insync_replicas_is_written_at_activation():
    config = BrokerConfig.parse({"min.insync.replicas": "2"})
    decision = activate(ClusterImage(cluster_id="c"), bootstrap_records(), config)
    image, _ = ClusterImage(cluster_id="c").replay(decision.records, Offset(9), LeaderEpoch(1))
    assert image.config(BROKER_RESOURCE, "") == {"min.insync.replicas": "2"}


def test_an_open_metadata_transaction_is_aborted(cluster):
    assert activate(cluster.image, bootstrap_records()).records == ()
    left_open = replace(cluster.image, transaction=())
    assert [type(r) for r in activate(left_open, bootstrap_records()).records] == [AbortTransactionRecord]


@pytest.mark.parametrize(
    ("elr", "last_known", "clean", "isr", "recovering"),
    [
        ([1], [1], True, (1,), 0),  # Kafka stopped cleanly
        ([1], [1], False, (1,), 1),  # Kafka was killed: no other replica has more
        ([], [1], True, (1,), 1),
        ([], [], True, (), 0),
        ([2], [1], True, (), 0),  # broker 2 has more
        ([], [1, 2], True, (), 0),
    ],
)
def test_a_broker_leads_partitions_again_whose_isr_kafka_emptied(cluster, elr, last_known, clean, isr, recovering):
    create(cluster, "orders")
    topic = cluster.image.topics["orders"]
    emptied = PartitionChangeRecord(
        partition_id=0,
        topic_id=topic.topic_id,
        leader=-1,
        isr=[],
        replicas=[1, 2],
        eligible_leader_replicas=elr,
        last_known_elr=last_known,
    )
    cluster.take(Decision(records=(emptied,), response=None))
    cluster.add_broker(1, incarnation=7, clean=clean)
    (partition,) = cluster.image.topics["orders"].partitions
    assert (partition.leader, partition.isr, partition.recovery) == (1 if isr else -1, isr, recovering)
    if isr:
        assert (partition.elr, partition.last_known_elr) == ((), ())
