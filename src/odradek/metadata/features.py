"""The features of the cluster, and the levels that this version of Odradek supports.

A new cluster gets `metadata.version` 25, Kafka's 4.0-IV3, which every Kafka 4 can read. A directory that Kafka wrote
may be at any level up to 30, its 4.3-IV0: the records are the same, with added fields that have no effect here.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.metadata.image import ClusterImage, FeatureRange
from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from odradek.protocol.schema import Message

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 25
# KIP-966: level 1 keeps eligible leaders (ELR) besides the ISR.
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"

# KIP-890: with level 2, each transaction has a producer epoch of its own, and partitions join by their first produce.
TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_LEVEL = 2

# Reported to clients, which act on them.
OFFERED_FEATURES: Mapping[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(METADATA_VERSION_LEVEL, 30),
    "kraft.version": FeatureRange(1, 1),
    ELIGIBLE_LEADERS: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, TRANSACTION_VERSION_LEVEL),
}
# Kafka finalises all of these in a new directory. Those not listed above are not supported, but no record depends on
# them, so such a directory can be opened.
SUPPORTED_FEATURES: Mapping[str, FeatureRange] = {
    **OFFERED_FEATURES,
    "group.version": FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
}

# The version of each record at the lowest metadata.version; others are at version 0.
_RECORD_VERSIONS: Mapping[type[Message], int] = {
    RegisterBrokerRecord: 3,
    BrokerRegistrationChangeRecord: 2,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
}


def record_version(record: Message) -> int:
    return _RECORD_VERSIONS.get(type(record), 0)


def has_eligible_leaders(image: ClusterImage) -> bool:
    return image.features.get(ELIGIBLE_LEADERS, 0) > 0


def transaction_version(image: ClusterImage) -> int:
    return image.features.get(TRANSACTION_VERSION, 0)


def bootstrap_records() -> tuple[Message, ...]:
    """The first records of a new cluster."""
    return (
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(name=ELIGIBLE_LEADERS, feature_level=1),
        FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=TRANSACTION_VERSION_LEVEL),
    )
