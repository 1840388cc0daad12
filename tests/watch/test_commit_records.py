"""Records of `__consumer_offsets` become events of the monitor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.base.ids import ZERO_UUID
from odradek.monitor.lag.windows import Positions
from odradek.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_group_key,
    encode_group_value,
)
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from odradek.watch.commit_records import (
    RECORDS_AT_ONCE,
    Assigned,
    Commits,
    GroupDeleted,
    GroupEvent,
    OffsetDeleted,
    group_events,
)

AT = 1_700_000_000_000


def events(records: list[tuple[bytes | None, bytes | None]]) -> list[GroupEvent]:
    return list(group_events([key for key, _ in records], [value for _, value in records]))


def key(group: str, topic: str, partition: int) -> bytes:
    return encode_group_key(OffsetCommitKey(group=group, topic=topic, partition=partition))


def value(offset: int, *, version: int = 3, metadata: str = "") -> bytes:
    return encode_group_value(
        OffsetCommitValue(offset=offset, leader_epoch=4, metadata=metadata, commit_timestamp=AT), version
    )


def test_commits_of_one_request_are_one_event() -> None:
    records = [(key("g", "t", p), value(p * 10)) for p in range(3)]
    records += [(key("g", "u", 0), value(7)), (key("h", "u", 1), value(8))]
    assert list(events(records)) == [
        Commits(group="g", topic="t", positions=Positions.of((0, 0, AT), (1, 10, AT), (2, 20, AT))),
        Commits(group="g", topic="u", positions=Positions.of((0, 7, AT))),
        Commits(group="h", topic="u", positions=Positions.of((1, 8, AT))),
    ]


def test_a_long_run_of_commits_is_read_in_pieces() -> None:
    count = 3 * RECORDS_AT_ONCE + 1
    found = list(events([(key("g", "t", p), value(p)) for p in range(count)]))
    assert len(found) == 4
    assert [position for each in found for position in each.positions] == [(p, p, AT) for p in range(count)]


def test_every_version_of_a_commit_is_read() -> None:
    records = [(key("g", "t", 0), value(at, version=at, metadata="note" * (at % 2))) for at in range(5)]
    [commits] = events(records)
    assert list(commits.positions) == [(0, at, AT) for at in range(5)]
    legacy = encode_group_key(LegacyOffsetCommitKey(group="g", topic="t", partition=2))
    assert [list(each.positions) for each in events([(legacy, value(1, version=1))])] == [[(2, 1, AT)]]


@pytest.mark.parametrize(("version", "topic_id"), [(3, ZERO_UUID), (4, ZERO_UUID), (4, b"i" * 16), (1, ZERO_UUID)])
@pytest.mark.parametrize("odd", [None, "note", "x" * 200])
def test_commits_decoded_together_are_those_decoded_one_by_one(version: int, topic_id: bytes, odd: str | None) -> None:
    """`odd` is the metadata of one of them, which then has another form."""
    values = [
        encode_group_value(
            OffsetCommitValue(
                offset=at << 33,
                leader_epoch=at,
                metadata=odd if at == 2 and odd else "",
                commit_timestamp=AT + at,
                topic_id=topic_id,
            ),
            version,
        )
        for at in range(5)
    ]
    [commits] = events([(key("g", "t", at), each) for at, each in enumerate(values)])
    assert list(commits.positions) == [(at, at << 33, AT + at) for at in range(5)]


def test_tombstones_delete_offsets_and_groups() -> None:
    group = encode_group_key(GroupMetadataKey(group="g"))
    consumer_group = b"\0\3" + group[2:]
    records = [(key("g", "t", 0), value(1)), (key("g", "t", 0), None), (group, None), (consumer_group, None)]
    assert list(events(records)) == [
        Commits(group="g", topic="t", positions=Positions.of((0, 1, AT))),
        OffsetDeleted(group="g", topic="t", partition=0),
        GroupDeleted(group="g"),
        GroupDeleted(group="g"),
    ]


def test_a_rebalance_names_the_owner_of_each_partition() -> None:
    assigned = ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0, 2])
    assignment = b"\0\1" + ConsumerProtocolAssignment(assigned_partitions=[assigned]).encode(1)
    members = [
        MemberMetadata(client_id="billing", client_host="/10.0.0.7", assignment=assignment),
        MemberMetadata(client_id="idle", client_host="/10.0.0.8"),
    ]
    metadata = GroupMetadataValue(protocol_type="consumer", members=members)
    record = encode_group_key(GroupMetadataKey(group="g")), encode_group_value(metadata, 3)
    assert list(events([record])) == [
        Assigned(group="g", members=[("/10.0.0.7", "billing", {"t": [0, 2]}), ("/10.0.0.8", "idle", {})])
    ]
    connect = GroupMetadataValue(protocol_type="connect", members=members)
    assert list(events([(record[0], encode_group_value(connect, 3))])) == []


@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)), max_size=20))
def test_records_that_cannot_be_decoded_are_skipped(records: list[tuple[bytes | None, bytes | None]]) -> None:
    good = key("g", "t", 1), value(5)
    *_, last = events([*records, (None, b""), good])
    assert isinstance(last, Commits)
    assert [*last.positions][-1] == (1, 5, AT)
