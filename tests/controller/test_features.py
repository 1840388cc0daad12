from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, BrokerId, DirectoryId
from odradek.controller.brokers import Registration, register_broker
from odradek.controller.decision import Decision
from odradek.controller.features import FeatureUpdate, UpgradeType, update_features
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.features import ELIGIBLE_LEADERS, METADATA_VERSION, TRANSACTION_VERSION
from odradek.metadata.image import BROKER_RESOURCE, FeatureRange, Listener
from odradek.protocol.messages.p19_create_topics import CreatableTopic
from odradek.protocol.metadata_records import ConfigRecord

CLUSTER = "cluster"
UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
CONFIG = BrokerConfig.parse({"node.id": "1", "min.insync.replicas": "2"})


def update(cluster, feature, level, kind=UP):
    return cluster.take(update_features(cluster.image, [FeatureUpdate(feature, level, kind)], CONFIG))


def refusal(cluster, *asked) -> str:
    with pytest.raises(KafkaError) as refused:
        update(cluster, *asked)
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    return refused.value.message


def test_a_level_is_lowered_only_by_a_downgrade_request(cluster):
    update(cluster, METADATA_VERSION, 29)
    assert "request a safe or unsafe downgrade" in refusal(cluster, METADATA_VERSION, 26)
    assert "is not a downgrade" in refusal(cluster, METADATA_VERSION, 30, SAFE)
    update(cluster, METADATA_VERSION, 26, SAFE)
    assert cluster.image.features[METADATA_VERSION] == 26


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_a_downgrade_that_would_lose_metadata_is_refused(cluster, kind):
    update(cluster, METADATA_VERSION, 30)
    assert "might be lost" in refusal(cluster, METADATA_VERSION, 29, kind)


@pytest.mark.parametrize(
    ("feature", "level"),
    [(METADATA_VERSION, 31), (METADATA_VERSION, 24), (METADATA_VERSION, -1), ("transaction.version", 3), ("other", 1)],
)
def test_an_unsupported_level_is_refused(cluster, feature, level):
    assert "this version of Odradek" in refusal(cluster, feature, level)


def test_a_level_that_one_broker_does_not_support_is_refused(cluster):
    older = Registration(
        broker_id=BrokerId(9),
        cluster_id=CLUSTER,
        incarnation_id=bytes(16),
        listeners=(Listener("PLAINTEXT", "localhost", 9092, 0),),
        directories=(DirectoryId(bytes([9]) * 16),),
        features={
            METADATA_VERSION: FeatureRange(25, 26),
            ELIGIBLE_LEADERS: FeatureRange(0, 1),
            TRANSACTION_VERSION: FeatureRange(0, 2),
        },
    )
    cluster.take(register_broker(cluster.image, older))
    assert "broker 9 supports 25 to 26" in refusal(cluster, METADATA_VERSION, 27)
    update(cluster, METADATA_VERSION, 26)


def test_the_last_update_of_a_feature_applies(cluster):
    """As in Kafka, which ignores the first one."""
    nonsense, wanted = FeatureUpdate(METADATA_VERSION, 99, UP), FeatureUpdate(METADATA_VERSION, 29, UP)
    cluster.take(update_features(cluster.image, [nonsense, wanted], CONFIG))
    assert cluster.image.features[METADATA_VERSION] == 29
    with pytest.raises(KafkaError):
        update_features(cluster.image, [wanted, nonsense], CONFIG)


def test_an_unknown_upgrade_type_is_refused(cluster):
    assert "is not an upgrade type" in refusal(cluster, METADATA_VERSION, 26, 7)


def test_kraft_version_cannot_be_changed(cluster):
    assert update_features(cluster.image, [FeatureUpdate("kraft.version", 1, UP)], CONFIG).records == ()
    assert "kraft.version" in refusal(cluster, "kraft.version", 0, SAFE)


def test_with_eligible_leaders_min_isr_is_one_value_for_the_cluster(cluster):
    """KIP-966. A new partition epoch makes leaders with another value learn the new one before they propose an ISR."""
    cluster.forget_eligible_leaders()
    for broker_id in (2, 3):
        cluster.add_broker(broker_id)
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=3)
    cluster.take(create_topics(cluster.image, [topic], defaults=TopicDefaults(), rng=cluster.rng))
    own = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="2", name="min.insync.replicas", value="1")
    cluster.take(Decision(records=(own,), response=None))
    epoch = cluster.partition("orders").partition_epoch
    update(cluster, ELIGIBLE_LEADERS, 1)
    assert cluster.image.features[ELIGIBLE_LEADERS] == 1
    assert cluster.image.config(BROKER_RESOURCE, "") == {"min.insync.replicas": "2"}
    assert cluster.image.config(BROKER_RESOURCE, "2") == {}
    assert cluster.partition("orders").partition_epoch == epoch + 1
    update(cluster, ELIGIBLE_LEADERS, 0, SAFE)
    assert ELIGIBLE_LEADERS not in cluster.image.features


def test_disabling_the_feature_clears_the_elr(three):
    """No node would notice that it falls behind: with min.insync.replicas=1 the leader acknowledges alone."""
    three.fence(3, 2)
    assert three.partition().elr == (2,)
    update(three, ELIGIBLE_LEADERS, 0, SAFE)
    assert three.partition().elr == ()
    three.unfence(2)
    three.fence(1)
    assert (three.partition().leader, three.partition().isr) == (NO_BROKER, (1,))
    three.unfence(1)
    assert three.partition().leader == 1


def test_enabling_the_feature_clears_a_leftover_elr(three):
    """Kafka leaves the ELR in the log."""
    minimum = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="2")
    three.take(Decision(records=(minimum,), response=None))
    three.fence(3, 2)
    three.forget_eligible_leaders()
    assert three.partition().elr == (2,)
    update(three, ELIGIBLE_LEADERS, 1)
    assert three.partition().elr == ()


def test_the_feature_cannot_be_disabled_while_an_isr_is_empty(three):
    three.fence(3, 2, 1)
    assert "t-0 has no replica in sync" in refusal(three, ELIGIBLE_LEADERS, 0, SAFE)
    three.unfence(2)
    update(three, ELIGIBLE_LEADERS, 0, SAFE)
    assert (three.partition().leader, three.partition().isr, three.partition().elr) == (2, (2,), ())


def test_a_new_cluster_has_the_newest_transactions_and_an_older_one_gets_them_level_by_level(cluster):
    assert cluster.image.features[TRANSACTION_VERSION] == 2
    for level in (1, 0):
        update(cluster, TRANSACTION_VERSION, level, SAFE)
    for level in (1, 2):
        update(cluster, TRANSACTION_VERSION, level)
    assert cluster.image.features[TRANSACTION_VERSION] == 2
