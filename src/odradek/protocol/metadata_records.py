"""Records of `__cluster_metadata` and its snapshots, framed as Kafka does: frame version, type, version, body."""

from __future__ import annotations

from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from odradek.protocol.schema import ByteSource, Message
from odradek.protocol.wire import read_uvarint, uvarint

__all__ = [
    "AbortTransactionRecord",
    "BeginTransactionRecord",
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ConfigRecord",
    "ControllerEndpoint",
    "ControllerFeature",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "MetadataRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveTopicRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "decode_metadata_record",
    "encode_metadata_record",
]

MetadataRecord = Message
FRAME_VERSION = 1

_RECORDS: dict[int, type[MetadataRecord]] = {
    record.KEY: record
    for record in (
        AbortTransactionRecord,
        BeginTransactionRecord,
        BrokerRegistrationChangeRecord,
        ClearElrRecord,
        ConfigRecord,
        EndTransactionRecord,
        FeatureLevelRecord,
        FenceBrokerRecord,
        NoOpRecord,
        PartitionChangeRecord,
        PartitionRecord,
        ProducerIdsRecord,
        RegisterBrokerRecord,
        RegisterControllerRecord,
        RemoveTopicRecord,
        TopicRecord,
        UnfenceBrokerRecord,
        UnregisterBrokerRecord,
    )
}


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    return uvarint(FRAME_VERSION) + uvarint(record.KEY) + uvarint(version) + record.encode(version)


def decode_metadata_record(value: ByteSource) -> MetadataRecord:
    data = bytes(value)
    try:
        frame_version, position = read_uvarint(data, 0)
        key, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except IndexError as broken:
        raise MalformedMessage("the frame of a metadata record is incomplete") from broken
    if frame_version != FRAME_VERSION:
        raise MalformedMessage(f"metadata frame version {frame_version} is unknown")
    if key not in _RECORDS:
        raise MalformedMessage(f"metadata record type {key} is unknown")
    return _RECORDS[key].decode(data, version, position)
