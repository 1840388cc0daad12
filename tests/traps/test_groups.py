"""Groups as members and monitors of every age see them."""

from __future__ import annotations

import pytest

from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol


@pytest.mark.parametrize("place", ["protocol_type", "group_instance_id", "name"])
def test_a_member_whose_names_cannot_be_stored_is_refused(wire, name, place):
    """Stored, they have a length of 16 bits; newer requests carry longer ones."""
    long = "L" * 40_000
    wire.ask(FindCoordinatorRequest(key=name), 0)
    fields = {"protocol_type": "consumer", "group_instance_id": "me", "name": "range", place: long}
    protocols = [JoinGroupRequestProtocol(name=fields.pop("name"), metadata=b"")]
    request = JoinGroupRequest(group_id=name, session_timeout_ms=6000, protocols=protocols, **fields)
    assert wire.ask(request, 9).error_code == 42


def test_an_offset_may_be_kept_for_longer_than_time_lasts(wire, topic, name):
    """Clients before KIP-211 say how long, and the largest number means for ever."""
    wire.ask(FindCoordinatorRequest(key=name), 0)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    request = OffsetCommitRequest(group_id=name, retention_time_ms=2**63 - 1, topics=topics)
    assert wire.ask(request, 2).topics[0].partitions[0].error_code == 0
