"""The first records that a controller writes when it becomes active."""

from __future__ import annotations

from odradek.controller.decision import Decision
from odradek.controller.elections import DEFAULTS
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.in_force import effective_topic_config
from odradek.metadata.features import ELIGIBLE_LEADERS, METADATA_VERSION
from odradek.metadata.image import BROKER_RESOURCE, ClusterImage
from odradek.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from odradek.protocol.schema import Message


def activate(image: ClusterImage, bootstrap: tuple[Message, ...], config: BrokerConfig = DEFAULTS) -> Decision[None]:
    """Writes the bootstrap records into an empty log, and aborts a transaction that its writer did not end.

    With eligible leaders, `min.insync.replicas` is then one value for the whole cluster: that of the first controller's
    `config`.
    """
    records: list[Message] = []
    told: list[str] = []
    if image.transaction is not None:
        records.append(AbortTransactionRecord(reason="Controller failover"))
        told.append("aborted the metadata transaction that the last controller left open")
    if METADATA_VERSION not in image.features:
        records += [
            BeginTransactionRecord(name="Bootstrap records"),
            *bootstrap,
            *_min_isr(image, bootstrap, config),
            EndTransactionRecord(),
        ]
        told.append(f"the metadata log is empty: wrote {len(bootstrap)} bootstrap record(s)")
    return Decision(records=tuple(records), response=None, sentence="; ".join(told))


def _min_isr(image: ClusterImage, bootstrap: tuple[Message, ...], config: BrokerConfig) -> list[Message]:
    features = [record.name for record in bootstrap if isinstance(record, FeatureLevelRecord) and record.feature_level]
    if ELIGIBLE_LEADERS not in features:
        return []
    value = effective_topic_config(image, "", config).min_insync_replicas
    return [ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value=str(value))]
