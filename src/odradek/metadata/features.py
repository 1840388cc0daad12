"""The features of the cluster and the levels this version of Odradek speaks.

`metadata.version` 25 is Kafka's 4.0-IV3: every Kafka 4 tool reads what we write. A feature that is not here
(consumer groups of KIP-848, transactions, share groups) is not finalised until it exists, since clients act on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.metadata.image import FeatureRange
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

SUPPORTED_FEATURES: Mapping[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    "kraft.version": FeatureRange(1, 1),
}

# The version of each record at this metadata.version; those not here are at version 0.
_RECORD_VERSIONS: Mapping[type[Message], int] = {
    RegisterBrokerRecord: 3,
    BrokerRegistrationChangeRecord: 2,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
}


def record_version(record: Message) -> int:
    return _RECORD_VERSIONS.get(type(record), 0)


def bootstrap_records() -> tuple[Message, ...]:
    """The first truth of a new cluster."""
    return (FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),)
