"""Consumer groups, as old and new clients and monitoring tools use them."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from odradek.protocol.batch import iter_batches, iter_records
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.p09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.p13_leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.messages.p15_describe_groups import DescribeGroupsRequest
from odradek.testing import Embedded
from traps.wire import Wire

OFFSET_METADATA_TOO_LARGE, COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER, REBALANCING, INVALID_REQUEST = 12, 15, 25, 27, 42
GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, FENCED_INSTANCE = 69, 79, 82


class Member:
    """One consumer with its own connection: its requests may wait for other members."""

    def __init__(self, broker: Embedded, group: str, *, instance: str | None = None) -> None:
        self.wire = Wire(broker.port)
        self.group, self.instance = group, instance
        self.member_id, self.generation = "", -1

    def post_join(self, *, metadata: bytes = b"topics") -> None:
        self._join = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        if not self.member_id and self.instance is None:
            self._join.member_id = self.wire.ask(self._join, 5).member_id
        self.wire.post(self._join, 5)

    def joined(self) -> Any:
        _, answer = self.wire.collect(self._join, 5)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, **fields: Any) -> Any:
        self.post_join(**fields)
        return self.joined()

    def sync_request(self, assignments: dict[str, bytes]) -> SyncGroupRequest:
        given = [SyncGroupRequestAssignment(member_id=who, assignment=what) for who, what in assignments.items()]
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=given,
        )

    def sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        return self.wire.ask(self.sync_request(assignments or {}), 3)

    def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return self.wire.ask(request, 3).error_code

    def commit(self, topic: str, offset: int) -> int:
        return commit(self.wire, self.group, topic, offset, member_id=self.member_id, generation=self.generation)

    def leave(self) -> None:
        members = [MemberIdentity(member_id=self.member_id)]
        assert self.wire.ask(LeaveGroupRequest(group_id=self.group, members=members), 3).error_code == 0


def commit(
    wire: Wire, group: str, topic: str, offset: int, *, metadata: str = "", member_id: str = "", generation: int = -1
) -> int:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)]
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    return wire.ask(request, 7).topics[0].partitions[0].error_code


def committed(wire: Wire, group: str, topics: dict[str, list[int]] | None, version: int) -> list[tuple]:
    """Topic, partition, offset, metadata and error of each answer."""
    if version >= 8:
        wanted = (
            None
            if topics is None
            else [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics.items()]
        )
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)])
        (answer,) = wire.ask(request, version).groups
    else:
        wanted = (
            None
            if topics is None
            else [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
        )
        answer = wire.ask(OffsetFetchRequest(group_id=group, topics=wanted), version)
    assert answer.error_code == 0
    return [
        (topic.name, part.partition_index, part.committed_offset, part.metadata, part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    ]


@pytest.fixture
def group(wire, name):
    """A group name, after FindCoordinator succeeded."""
    assert wire.ask(FindCoordinatorRequest(key=f"{name}-group"), 0).error_code == 0
    return f"{name}-group"


@pytest.fixture
def member(broker, group):
    """Creates members of `group`, and closes their connections at the end."""
    members: list[Member] = []

    def make(**fields: Any) -> Member:
        members.append(Member(broker, group, **fields))
        return members[-1]

    yield make
    for each in members:
        each.wire.socket.close()


def stable_pair(member) -> tuple[Member, Member]:
    """Leader and follower of generation 2."""
    leader, follower = member(), member()
    leader.join()
    leader.sync({leader.member_id: b"all"})
    follower.post_join()
    while leader.heartbeat() != REBALANCING:
        pass
    leader.post_join()
    assert [leader.joined().error_code, follower.joined().error_code] == [0, 0]
    leader.sync({leader.member_id: b"left", follower.member_id: b"right"})
    assert follower.sync().assignment == b"right"
    return leader, follower


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_for_one_key_or_many(wire, version):
    """T44. Many keys from version 4 on. The first request may have to wait for the offsets topic."""
    with Embedded() as fresh, Wire(fresh.port) as asking:
        request = FindCoordinatorRequest(key="one", coordinator_keys=["one", "two"] if version >= 4 else [])
        while True:
            answer = asking.ask(request, version)
            found = answer.coordinators if version >= 4 else [answer]
            if all(each.error_code != COORDINATOR_NOT_AVAILABLE for each in found):
                break
        assert [(each.error_code, each.host, each.port) for each in found] == [(0, "127.0.0.1", fresh.port)] * len(
            found
        )
        if version >= 4:
            assert [each.key for each in found] == ["one", "two"]


def test_new_member_must_rejoin_with_its_assigned_member_id(broker, wire, group):
    """T45. From version 4 on (KIP-394), so that retries do not add dead members to the group."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer"
    )
    request.protocols = protocols
    first = wire.ask(request, 4)
    assert (first.error_code, first.generation_id) == (MEMBER_ID_REQUIRED, -1)
    assert first.member_id.startswith("trap-")
    request.member_id = first.member_id
    second = wire.ask(request, 4)
    assert (second.error_code, second.generation_id, second.member_id) == (0, 1, first.member_id)


@pytest.mark.parametrize("version", [0, 3, 5, 9])
def test_old_clients_and_static_members_join_without_a_second_request(wire, group, version):
    """T45. Old clients do not know this error, and static members have an instance id."""
    request = JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer"
    )
    request.protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request.group_instance_id = "me" if version >= 5 else None
    answer = wire.ask(request, version)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)


def test_follower_that_rejoins_unchanged_gets_the_current_generation(member):
    """T46. Otherwise a client that lost a reply would cause a rebalance of all members."""
    leader, follower = stable_pair(member)
    again = follower.join()
    assert (again.error_code, again.generation_id) == (0, 2)
    assert leader.heartbeat() == 0


def test_leader_that_rejoins_starts_a_rebalance(member):
    """T46. Its metadata may have changed, and only the leader assigns partitions."""
    leader, follower = stable_pair(member)
    leader.post_join()
    while follower.heartbeat() != REBALANCING:
        pass
    follower.post_join()
    assert {leader.joined().generation_id, follower.joined().generation_id} == {3}


def test_offset_commit_of_a_member_in_each_group_state(member, topic):
    """T46. While others rejoin: accepted. While the leader assigns: refused. In an empty group: unknown member."""
    leader, follower = stable_pair(member)
    assert follower.commit(topic, 1) == 0
    leader.post_join()
    while follower.heartbeat() != REBALANCING:
        pass
    assert follower.commit(topic, 2) == 0
    follower.post_join()
    leader.joined()
    follower.joined()
    assert follower.commit(topic, 3) == REBALANCING
    leader.sync({follower.member_id: b"all"})
    assert follower.commit(topic, 4) == 0
    leader.leave()
    follower.leave()
    assert follower.commit(topic, 5) == UNKNOWN_MEMBER
    assert committed(leader.wire, leader.group, {topic: [0]}, 7)[0][2] == 4


def test_member_without_an_assignment_gets_empty_bytes(member):
    """T47. The assignments of the other members arrive unchanged."""
    leader, follower = member(), member()
    leader.join()
    follower.post_join()
    while leader.heartbeat() != REBALANCING:
        pass
    leader.post_join()
    leader.joined()
    follower.joined()
    request = follower.sync_request({})
    follower.wire.post(request, 3)
    large = bytes(range(256)) * 200
    assert leader.sync({leader.member_id: large}).assignment == large
    _, answer = follower.wire.collect(request, 3)
    assert (answer.error_code, answer.assignment) == (0, b"")


def test_initial_rebalance_delay_collects_the_first_members(name):
    """T48. Members that join within the delay share the first generation."""
    with Embedded(config={"group.initial.rebalance.delay.ms": "400"}) as broker, Wire(broker.port) as wire:
        assert wire.ask(FindCoordinatorRequest(key=name), 0).error_code == 0
        members = [Member(broker, name, instance=f"static-{number}") for number in range(3)]
        broker.pause()
        for each in members:
            each.post_join()
        started = time.monotonic()
        broker.resume()
        answers = [each.joined() for each in members]
        assert time.monotonic() - started > 0.39
        for each in members:
            each.wire.socket.close()
    assert [answer.generation_id for answer in answers] == [1, 1, 1]
    assert sorted(len(answer.members) for answer in answers) == [0, 0, 3]


def test_restarted_static_member_keeps_its_assignment_and_fences_its_old_instance(member):
    """T49. There is no rebalance; the new instance keeps the assignment."""
    old, other = member(instance="a"), member(instance="b")
    old.join()
    old.sync({old.member_id: b"all"})
    other.post_join()
    while old.heartbeat() != REBALANCING:
        pass
    old.post_join()
    old.joined()
    other.joined()
    old.sync({old.member_id: b"left", other.member_id: b"right"})
    other.sync()
    new = member(instance="b")
    joined = new.join()
    assert (joined.error_code, joined.generation_id) == (0, other.generation)
    assert new.member_id != other.member_id
    assert new.sync().assignment == b"right"
    assert (old.heartbeat(), other.heartbeat(), new.heartbeat()) == (0, FENCED_INSTANCE, 0)


def test_consumer_without_membership_commits_only_while_the_group_is_empty(member, wire, group, topic):
    """T50. Generation -1 and no member id: a consumer that assigns its partitions itself."""
    assert commit(wire, group, topic, 1) == 0
    one = member()
    one.join()
    one.sync({one.member_id: b"all"})
    assert commit(wire, group, topic, 2) == UNKNOWN_MEMBER
    one.leave()
    assert commit(wire, group, topic, 3) == 0


@pytest.mark.parametrize("metadata", ["", "plain", "nul \0 in it", "€", "x" * 4096])
def test_offset_metadata_is_returned_unchanged(wire, group, topic, metadata):
    """T50."""
    assert commit(wire, group, topic, 7, metadata=metadata) == 0
    for version in (1, 5, 8):
        assert committed(wire, group, {topic: [0]}, version) == [(topic, 0, 7, metadata, 0)]


def test_offset_with_too_long_metadata_is_refused(wire, group, topic):
    """T50."""
    assert commit(wire, group, topic, 7, metadata="x" * 4097) == OFFSET_METADATA_TOO_LARGE
    assert committed(wire, group, {topic: [0]}, 7) == [(topic, 0, -1, "", 0)]


@pytest.mark.parametrize("version", [2, 5, 7, 8, 9])
def test_offset_fetch_null_returns_all_and_uncommitted_is_minus_one(wire, group, topic, version):
    """T51. Without an error: the client then requests the first or last offset."""
    assert committed(wire, group, None, version) == []
    commit(wire, group, topic, 3)
    assert committed(wire, group, None, version) == [(topic, 0, 3, "", 0)]
    assert committed(wire, group, {topic: [5]}, version) == [(topic, 5, -1, "", 0)]
    assert committed(wire, group, {"never-heard-of": [0]}, version) == [("never-heard-of", 0, -1, "", 0)]
    assert committed(wire, f"{group}-unknown", {topic: [0]}, version) == [(topic, 0, -1, "", 0)]


def test_offset_fetch_for_several_groups(wire, group, topic):
    """T51. From version 8 on, each with its own error."""
    commit(wire, group, topic, 3)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in (group, "other")], require_stable=True
    )
    answer = wire.ask(request, 9)
    assert [(each.group_id, each.error_code, len(each.topics)) for each in answer.groups] == [
        (group, 0, 1),
        ("other", 0, 0),
    ]


@pytest.mark.parametrize(("version", "error"), [(0, 0), (5, 0), (6, GROUP_ID_NOT_FOUND)])
def test_describe_of_an_unknown_group_returns_dead(wire, group, version, error):
    """T52. An error only from version 6 on."""
    (answer,) = wire.ask(DescribeGroupsRequest(groups=[group]), version).groups
    assert (answer.group_state, answer.error_code, answer.members) == ("Dead", error, [])


# Of 50 partitions, by the absolute value of Java's hash. The second hash is negative, the third is Integer.MIN_VALUE.
IN_PARTITION = {"grüße": 23, "analytics": 10, "polygenelubricants": 0}


def text_at(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, position)
    return data[position + 2 : position + 2 + length].decode(), position + 2 + length


def test_offsets_topic_has_kafkas_partitioning_and_record_format():
    """T64, and what Burrow reads: key 1 and value 4 for an offset, key 2 and value 3 for a group. Decoded by hand."""
    with Embedded(config={"offsets.topic.num.partitions": "50"}) as broker, Wire(broker.port) as wire:
        topic = wire.create_topic("orders")
        for group, partition in IN_PARTITION.items():
            assert wire.ask(FindCoordinatorRequest(key=group), 0).error_code == 0
            one = Member(broker, group)
            one.join()
            one.sync({one.member_id: b"mine"})
            assert one.commit(topic, 42) == 0
            one.wire.socket.close()
            data = wire.fetch("__consumer_offsets", {partition: 0})[partition].records
            stored = [record for found in iter_batches(data) for record in iter_records(found.data)]
            offsets = [record for record in stored if record.key[:2] == b"\0\1"]
            groups = [record for record in stored if record.key[:2] == b"\0\2"]
            assert_offset(offsets[-1].key, offsets[-1].value, group, topic, wire.topic_id(topic), 42)
            assert text_at(groups[-1].key, 2) == (group, len(groups[-1].key))
            assert struct.unpack_from(">h", groups[-1].value) == (3,)
            assert text_at(groups[-1].value, 2)[0] == "consumer"


def assert_offset(key: bytes, value: bytes, group: str, topic: str, topic_id: bytes, offset: int) -> None:
    found_group, position = text_at(key, 2)
    found_topic, position = text_at(key, position)
    assert (found_group, found_topic, key[position:]) == (group, topic, bytes(4))
    version, found_offset, _leader_epoch, no_metadata = struct.unpack_from(">hqiB", value)
    assert (version, found_offset, no_metadata) == (4, offset, 1)
    assert struct.unpack_from(">BBB", value, 23) == (1, 0, 16), "behind the time one tagged field, the topic's id"
    assert value[26:] == topic_id


@pytest.mark.parametrize("place", ["protocol_type", "group_instance_id", "name"])
def test_member_with_names_too_long_to_store_is_refused(wire, name, place):
    """The stored record has a 16-bit length; newer request versions allow longer strings."""
    long = "L" * 40_000
    wire.ask(FindCoordinatorRequest(key=name), 0)
    fields = {"protocol_type": "consumer", "group_instance_id": "me", "name": "range", place: long}
    protocols = [JoinGroupRequestProtocol(name=fields.pop("name"), metadata=b"")]
    request = JoinGroupRequest(group_id=name, session_timeout_ms=6000, protocols=protocols, **fields)
    assert wire.ask(request, 9).error_code == 42


def test_maximum_offset_retention_means_forever(wire, topic, name):
    """Clients before KIP-211 send a retention time, and the largest number means forever."""
    wire.ask(FindCoordinatorRequest(key=name), 0)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    request = OffsetCommitRequest(group_id=name, retention_time_ms=2**63 - 1, topics=topics)
    assert wire.ask(request, 2).topics[0].partitions[0].error_code == 0
