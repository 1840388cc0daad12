"""The behaviour of message classes, and the bytes of versions that no other library has yet."""

from __future__ import annotations

import pytest

from odradek.base.ids import ZERO_UUID
from odradek.base.invariants import InvariantBroken
from odradek.protocol.headers import FLEXIBLE_FROM
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.p01_fetch import FetchRequest, ReplicaState
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from odradek.protocol.messages.p18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.p28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.messages.p42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from support.messages import api_classes

SERVED = {
    0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9),
    12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 5), 19: (2, 7), 20: (1, 6),
    21: (0, 2), 22: (0, 6), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 28: (0, 6), 32: (1, 4),
    33: (0, 2), 37: (0, 3), 42: (0, 3), 43: (0, 2),
    34: (1, 2), 35: (1, 5), 44: (0, 1), 47: (0, 0), 57: (0, 2), 60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2),
    71: (0, 0), 72: (0, 0),
    74: (0, 1), 75: (0, 0),
}  # fmt: skip
BETWEEN_NODES = {
    27: (1, 2), 45: (0, 1), 46: (0, 0), 52: (0, 2), 53: (0, 1), 54: (0, 1), 55: (0, 2), 56: (2, 3), 58: (0, 0),
    59: (0, 1),
    62: (0, 4), 63: (0, 2), 64: (0, 0), 67: (0, 0), 70: (0, 0), 73: (0, 0), 80: (0, 1), 81: (0, 0), 82: (0, 0),
}  # fmt: skip


def test_every_api_has_a_request_and_a_response_of_all_its_versions() -> None:
    found: dict[int, list[tuple[int, int]]] = {}
    for cls in api_classes():
        found.setdefault(cls.KEY, []).append(cls.VERSIONS)
    assert found == {key: [versions, versions] for key, versions in (SERVED | BETWEEN_NODES).items()}


def test_flexible_versions_in_headers_match_the_schemas() -> None:
    assert {cls.KEY: cls.FLEXIBLE_FROM for cls in api_classes()} == FLEXIBLE_FROM


def test_fields_have_kafkas_defaults() -> None:
    topic = MetadataResponseTopic()
    assert (topic.name, topic.topic_id, topic.partitions) == ("", ZERO_UUID, [])
    assert topic.topic_authorized_operations == -(1 << 31)
    request = FetchRequest()
    assert (request.max_bytes, request.cluster_id, request.replica_state) == (0x7FFFFFFF, None, ReplicaState())
    assert request.replica_state.replica_id == -1


def test_messages_do_not_share_mutable_defaults() -> None:
    MetadataResponseTopic().partitions.append(None)
    assert MetadataResponseTopic().partitions == []


def test_messages_compare_by_content_and_show_it() -> None:
    topic = MetadataRequestTopic(name="orders")
    assert topic == MetadataRequestTopic(name="orders")
    assert topic != MetadataRequestTopic(name="other")
    assert "name='orders'" in repr(topic)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        MetadataRequestTopic(nme="orders")


def test_fields_that_a_version_lacks_are_not_encoded() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
    assert MetadataRequest.decode(request.encode(3), 3).allow_auto_topic_creation
    assert not MetadataRequest.decode(request.encode(4), 4).allow_auto_topic_creation


def test_bytes_after_the_message_are_refused() -> None:
    encoded = MetadataRequest().encode(4)
    with pytest.raises(MalformedMessage, match="1 more"):
        MetadataRequest.decode(encoded + b"\0", 4)


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="no version 14"):
        MetadataRequest.decode(b"", 14)
    with pytest.raises(InvariantBroken, match="no version 14"):
        MetadataRequest().encode(14)


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = MetadataRequest(topics=None).encode(12)
    assert encoded[-1:] == b"\0"
    tagged = encoded[:-1] + b"\x02\x07\x03abc\x99\x01\x00"
    assert MetadataRequest.decode(tagged, 12) == MetadataRequest(topics=None)


@pytest.mark.parametrize(
    ("message", "version", "encoded"),
    [
        (
            ApiVersionsRequest(client_software_name="a", client_software_version="b", cluster_id="c", node_id=7),
            5,
            "0261 0262 0263 00000007 00",
        ),
        (ApiVersionsRequest(), 5, "01 01 00 ffffffff 00"),
        (
            ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=5)], finalized_features_epoch=9),
            5,
            "0000 02 0012 0000 0005 00 00000000 01 01 08 0000000000000009",
        ),
        (
            TxnOffsetCommitRequest(
                transactional_id="t",
                group_id="g",
                producer_id=1,
                producer_epoch=2,
                topics=[
                    TxnOffsetCommitRequestTopic(
                        topic_id=b"i" * 16,
                        partitions=[TxnOffsetCommitRequestPartition(committed_offset=3, committed_metadata=None)],
                    )
                ],
            ),
            6,
            "0274 0267 0000000000000001 0002 ffffffff 01 00 02" + "69" * 16 + "02 00000000 0000000000000003 ffffffff"
            "00 00 00 00",
        ),
        (
            TxnOffsetCommitResponse(
                topics=[
                    TxnOffsetCommitResponseTopic(
                        topic_id=b"i" * 16, partitions=[TxnOffsetCommitResponsePartition(error_code=100)]
                    )
                ]
            ),
            6,
            "00000000 02" + "69" * 16 + "02 00000000 0064 00 00 00",
        ),
        (DeleteGroupsRequest(groups_names=["g"]), 3, "02 0267 00"),
        (
            DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=69, error_message="no")]),
            3,
            "00000000 02 0267 0045 036e6f 00 00",
        ),
    ],
)
def test_bytes_of_versions_that_other_libraries_lack(message: object, version: int, encoded: str) -> None:
    assert message.encode(version) == bytes.fromhex(encoded)
    assert type(message).decode(bytes.fromhex(encoded), version) == message


def test_refused_api_versions_request_is_answered_in_version_0() -> None:
    refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=5)])
    assert refusal.encode(0) == bytes.fromhex("0023 00000001 0012 0000 0005")
