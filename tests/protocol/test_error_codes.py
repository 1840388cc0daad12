"""Error codes are found in every part of a reply."""

from odradek.protocol.error_codes import error_codes
from odradek.protocol.messages.p02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.messages.p12_heartbeat import HeartbeatResponse
from odradek.protocol.messages.p55_describe_quorum import DescribeQuorumResponse


def test_error_codes_of_a_reply_and_of_its_parts_are_found():
    assert error_codes(HeartbeatResponse(error_code=27)) == [27]
    partitions = [ListOffsetsPartitionResponse(error_code=code) for code in (0, 3, 3)]
    assert error_codes(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=partitions)])) == [3, 3]
    assert error_codes(DescribeQuorumResponse()) == []
