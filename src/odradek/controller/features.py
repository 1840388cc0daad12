"""Raises and lowers the levels of the cluster's features. All updates of a request succeed or none.

Every registered broker and controller must support a level. A level is lowered only by a request for a downgrade, and
`metadata.version` only if no record of the log would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import Offset
from odradek.controller.configs import other_eligibles
from odradek.controller.decision import Decision
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.in_force import effective_topic_config
from odradek.metadata.features import ELIGIBLE_LEADERS, METADATA_VERSION, OFFERED_FEATURES
from odradek.metadata.image import BROKER_RESOURCE, ClusterImage, FeatureRange
from odradek.protocol.metadata_records import ClearElrRecord, ConfigRecord, FeatureLevelRecord
from odradek.protocol.schema import Message

KRAFT_VERSION = "kraft.version"
MIN_ISR = "min.insync.replicas"
# The supported levels of metadata.version with records or fields that the previous level cannot read.
NEW_RECORDS = (30,)
UNKNOWN = FeatureRange(0, 0)


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    feature: str
    level: int
    # From the wire: may be any number.
    upgrade_type: int


def update_features(
    image: ClusterImage, updates: Sequence[FeatureUpdate], config: BrokerConfig, *, validate_only: bool = False
) -> Decision[None]:
    """If a feature is named twice, the last update applies."""
    records: list[Message] = []
    told: list[str] = []
    for update in {update.feature: update for update in updates}.values():
        now = _level(image, update.feature)
        _check(image, update, now)
        if update.level == now:
            continue
        level = FeatureLevelRecord(name=update.feature, feature_level=update.level)
        if update.feature == ELIGIBLE_LEADERS:
            records += _nobody_eligible(image, update)
            records += _one_min_isr(image, level, config) if update.level > 0 else []
        records.append(level)
        told.append(f"{update.feature} changed from {now} to {update.level}")
    if validate_only:
        return Decision(response=None)
    return Decision(records=tuple(records), response=None, sentence="; ".join(told))


def _level(image: ClusterImage, feature: str) -> int:
    """`kraft.version` is not in the image: it is a control record of the metadata log, always at level 1."""
    return 1 if feature == KRAFT_VERSION else image.features.get(feature, 0)


def _check(image: ClusterImage, update: FeatureUpdate, now: int) -> None:
    for whose, levels in _spoken(image, update.feature):
        if not levels.min_level <= update.level <= levels.max_level:
            raise _refusal(
                update,
                f"{whose} supports {levels.min_level} to {levels.max_level}"
                if any(levels)
                else f"{whose} does not support it",
            )
    if update.upgrade_type not in tuple(UpgradeType):
        raise _refusal(update, f"{update.upgrade_type} is not an upgrade type.")
    if update.level < now:
        if update.upgrade_type == UpgradeType.UPGRADE:
            raise _refusal(update, f"The current level is {now}: request a safe or unsafe downgrade.")
        if update.feature == METADATA_VERSION and any(update.level < level <= now for level in NEW_RECORDS):
            raise _refusal(update, f"Metadata that was written at level {now} might be lost.")
    elif update.level > now and update.upgrade_type != UpgradeType.UPGRADE:
        raise _refusal(update, f"The current level is {now}: this is not a downgrade.")


def _spoken(image: ClusterImage, feature: str) -> Iterator[tuple[str, FeatureRange]]:
    yield "this version of Odradek", OFFERED_FEATURES.get(feature, UNKNOWN)
    for broker in image.brokers.values():
        yield f"broker {broker.broker_id}", broker.features.get(feature, UNKNOWN)
    for controller in image.controllers.values():
        yield f"controller {controller.controller_id}", controller.features.get(feature, UNKNOWN)


def _refusal(update: FeatureUpdate, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {update.level} for feature {update.feature}. {why}"
    )


def _nobody_eligible(image: ClusterImage, update: FeatureUpdate) -> list[Message]:
    """Clears the ELR: while the feature is off, no node tracks which eligible replicas fall behind."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if not partition.isr:
                raise _refusal(
                    update,
                    f"{topic.name}-{partition.index} has no replica in sync, and its eligible leaders would be "
                    "forgotten: start its brokers, elect an unclean leader, or delete the topic.",
                )
    return [ClearElrRecord()]


def _one_min_isr(image: ClusterImage, level: FeatureLevelRecord, config: BrokerConfig) -> list[Message]:
    """Makes min.insync.replicas one value for the whole cluster, because it decides which replicas are eligible."""
    records: list[ConfigRecord] = []
    if MIN_ISR not in image.config(BROKER_RESOURCE, ""):
        value = str(effective_topic_config(image, "", config).min_insync_replicas)
        records.append(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_ISR, value=value))
    records += [
        ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=str(broker_id), name=MIN_ISR, value=None)
        for broker_id in image.brokers
        if MIN_ISR in image.config(BROKER_RESOURCE, str(broker_id))
    ]
    following, _ = image.replay([level], Offset(image.offset + 1), image.epoch)
    return [*records, *other_eligibles(following, records[:1])]
