"""The encoding of records in internal logs, byte for byte as Kafka writes them."""

from __future__ import annotations

import pytest

from odradek.protocol import control_records, group_records, metadata_records
from odradek.protocol.control_records import (
    ControlType,
    EndTxnMarker,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotHeaderRecord,
    decode_control_key,
    decode_control_value,
    encode_control_key,
    encode_control_value,
)
from odradek.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecordType,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.metadata_records import (
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from support.messages import Instances, message_classes, versions


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


def test_metadata_records_carry_frame_version_type_and_version() -> None:
    assert encode_metadata_record(NoOpRecord(), 0) == hexed("01 14 00 00")
    feature = FeatureLevelRecord(name="kraft.version", feature_level=1)
    assert encode_metadata_record(feature, 0) == hexed("01 0c 00 0e") + b"kraft.version" + hexed("0001 00")


def test_partition_change_record_has_only_changed_fields_in_tag_order() -> None:
    change = PartitionChangeRecord(
        partition_id=1, topic_id=bytes(16), leader=3, directories=[b"d" * 16], last_known_elr=[]
    )
    encoded = encode_metadata_record(change, 2)
    tags = "03 01 04 00000003 07 01 01 08 11 02" + "64" * 16
    assert encoded == hexed("01 05 02 00000001" + "00" * 16 + tags)
    assert decode_metadata_record(encoded) == change


def test_every_metadata_record_survives_a_round_trip() -> None:
    kinds = [cls for cls in message_classes() if cls.__module__.endswith(".metadata_records")]
    assert kinds
    for cls in kinds:
        for version in versions(cls):
            record = Instances(version).make(cls, version)
            assert decode_metadata_record(encode_metadata_record(record, version)) == record
            assert cls.__name__ in metadata_records.__all__


@pytest.mark.parametrize(
    "value", ["", "01", "01 14", "00 14 00 00", "02 14 00 00", "01 7f 00 00", "01 14 05 00", "01 ff"]
)
def test_malformed_metadata_records_are_refused(value: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_metadata_record(hexed(value))


def test_group_records_have_the_bytes_of_kafka() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=2)
    assert encode_group_key(key) == hexed("0001 0001 67 0001 74 00000002")
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=7)
    assert encode_group_value(value, 3) == hexed("0003 0000000000000005 00000001 0001 6d 0000000000000007")
    assert encode_group_key(GroupMetadataKey(group="g")) == hexed("0002 0001 67")
    assert encode_group_key(LegacyOffsetCommitKey(group="g", topic="t", partition=2))[:2] == hexed("0000")


def test_group_records_survive_a_round_trip() -> None:
    for key, value in (
        (OffsetCommitKey(group="g", topic="t", partition=2), OffsetCommitValue),
        (GroupMetadataKey(group="g"), GroupMetadataValue),
        (LegacyOffsetCommitKey(group="g", topic="t", partition=0), group_records.LegacyOffsetCommitValue),
    ):
        assert decode_group_key(encode_group_key(key)) == key
        for version in versions(value):
            content = Instances(version).make(value, version)
            assert decode_group_value(key, encode_group_value(content, version)) == content


def test_unknown_group_record_types_are_distinguished_from_broken_records() -> None:
    with pytest.raises(UnknownRecordType):
        decode_group_key(hexed("0003 0001 67"))
    for broken in ("", "03", "0001", "0001 0001"):
        with pytest.raises(MalformedMessage) as refusal:
            decode_group_key(hexed(broken))
        assert refusal.type is MalformedMessage
    key = GroupMetadataKey(group="g")
    for broken in ("", "0009 00", "0003"):
        with pytest.raises(MalformedMessage):
            decode_group_value(key, hexed(broken))


def test_control_records_carry_type_and_version() -> None:
    assert encode_control_key(ControlType.KRAFT_VOTERS) == hexed("0000 0006")
    assert decode_control_key(hexed("0000 0006")) == ControlType.KRAFT_VOTERS
    assert decode_control_key(hexed("0000 0063")) == 99
    assert encode_control_value(EndTxnMarker(coordinator_epoch=3)) == hexed("0000 00000003")
    assert encode_control_value(SnapshotHeaderRecord(last_contained_log_timestamp=5)) == hexed(
        "0000 0000000000000005 00"
    )
    change = LeaderChangeMessage(leader_id=1, voters=[LeaderChangeMessageVoter(voter_id=1)])
    assert encode_control_value(change) == hexed("0000 00000001 02 00000001 00 01 00")


def test_control_values_are_decoded_in_their_version() -> None:
    for control_type, cls in control_records._VALUES.items():
        for version in versions(cls):
            value = Instances(version).make(cls, version)
            if not isinstance(value, EndTxnMarker):
                value.version = version
            assert decode_control_value(ControlType(control_type), encode_control_value(value, version)) == value


def test_malformed_control_records_are_refused() -> None:
    for key in ("", "000000"):
        with pytest.raises(MalformedMessage):
            decode_control_key(hexed(key))
    for value in ("", "00", "0007 00", "0000"):
        with pytest.raises(MalformedMessage):
            decode_control_value(ControlType.LEADER_CHANGE, hexed(value))
