"""The group APIs in each version, on real partitions in memory and virtual time."""

from __future__ import annotations

import asyncio

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.base.invariants import InvariantBroken
from odradek.controller.topics import delete_topics
from odradek.coordinator.group.shard import GroupShard
from odradek.coordinator.group.states import GroupState
from odradek.protocol.batch import iter_batches, iter_records
from odradek.protocol.group_records import (
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    decode_group_value,
)
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
from odradek.protocol.messages.p16_list_groups import ListGroupsRequest
from odradek.protocol.messages.p20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.p42_delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.p47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.metadata_records import PartitionChangeRecord
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.internal_topics import OFFSETS_TOPIC
from odradek.sim.loop import SimulationFailed
from support.admin_broker import Denying
from support.group_broker import GroupBroker
from support.group_story import subscription

GROUP = "readers"


@pytest.fixture
def broker():
    return GroupBroker()


async def ready(broker: GroupBroker, *topics: str, partitions: int = 2) -> GroupBroker:
    found = await broker.send(10, FindCoordinatorRequest(key=GROUP), 0)
    assert found.error_code == 0
    for topic in topics:
        broker.create_topic(topic, partitions)
    return broker


def commit_of(offset: int, *, topic="orders", topic_id=ZERO_UUID, partition=0, group=GROUP, member="", generation=-1,
              metadata="", **more) -> OffsetCommitRequest:  # fmt: skip
    asked = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
    )
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[asked])],
        **more,
    )


def fetch_of(version: int, *, group=GROUP, topics=("orders",), indexes=(0, 1), topic_id=ZERO_UUID, stable=False):
    if version < 8:
        asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(indexes)) for topic in topics or ()]
        return OffsetFetchRequest(group_id=group, topics=None if topics is None else asked, require_stable=stable)
    wanted = [
        OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(indexes))
        for topic in topics or ()
    ]
    one = OffsetFetchRequestGroup(group_id=group, topics=None if topics is None else wanted)
    return OffsetFetchRequest(groups=[one], require_stable=stable)


def fetched(response, version: int) -> dict:
    topics = response.groups[0].topics if version >= 8 else response.topics
    return {
        (topic.name, partition.partition_index): (partition.committed_offset, partition.metadata, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    }


def join_of(member="", *, topics=("orders",), session_ms=10_000, instance=None, group=GROUP, protocols=None):
    supported = protocols or {"range": subscription(*topics)}
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in supported.items()],
    )


async def member_of(broker: GroupBroker, version: int = 9, **join) -> tuple[str, int]:
    """A stable group of one."""
    told = await broker.send(11, join_of(**join), version)
    if told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        told = await broker.send(11, join_of(told.member_id, **join), version)
    assert told.error_code == 0
    sync = SyncGroupRequest(
        group_id=join.get("group", GROUP),
        generation_id=told.generation_id,
        member_id=told.member_id,
        group_instance_id=join.get("instance"),
        assignments=[SyncGroupRequestAssignment(member_id=told.member_id, assignment=b"mine")],
    )
    assert (await broker.send(14, sync, 4)).assignment == b"mine"
    return told.member_id, told.generation_id


# Finding the coordinator.


@pytest.mark.parametrize("version", range(7))
def test_t44_the_first_search_creates_the_offsets_topic_and_finds_the_coordinator(broker, version):
    async def story():
        request = FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP, "other"] if version >= 4 else [])
        response = await broker.send(10, request, version)
        found = response.coordinators if version >= 4 else [response]
        assert [(c.error_code, c.node_id, c.host, c.port) for c in found] == [(0, 1, "host1", 9093)] * len(found)
        if version >= 4:
            assert [c.key for c in found] == [GROUP, "other"]

    broker.run(story())
    topic = broker.broker.image.topics[OFFSETS_TOPIC]
    assert len(topic.partitions) == 3
    assert dict(broker.broker.image.config(2, OFFSETS_TOPIC)) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "8388608",
    }
    assert len(topic.partitions[0].replicas) == 1, "three replicas are wanted, one broker is there"


def test_t44_without_a_broker_to_place_it_on_the_coordinator_is_not_available(broker):
    async def story():
        broker.broker.image = type(broker.broker.image)(cluster_id="c")
        response = await broker.send(10, FindCoordinatorRequest(key=GROUP), 1)
        assert (response.error_code, response.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    broker.run(story())


def test_t44_unknown_kinds_are_refused_with_an_error_that_clients_do_not_retry(broker):
    async def story():
        response = await broker.send(10, FindCoordinatorRequest(key_type=2, coordinator_keys=["x"]), 6)
        assert response.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
        assert response.coordinators[0].error_message
        assert OFFSETS_TOPIC not in broker.broker.image.topics

    broker.run(story())


# Offsets.


@pytest.mark.parametrize("version", range(2, 11))
def test_commit_and_fetch_in_every_version(broker, version):
    async def story():
        await ready(broker, "orders")
        topic_id = broker.broker.image.topics["orders"].topic_id
        named = {"topic": "", "topic_id": topic_id} if version >= 10 else {}
        response = await broker.send(8, commit_of(42, metadata="note", **named), version)
        [topic] = response.topics
        assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, 0)]
        assert (topic.topic_id if version >= 10 else topic.name) == (topic_id if version >= 10 else "orders")
        name = "" if version >= 10 else "orders"
        answer = await broker.send(9, fetch_of(version, topics=(name,), topic_id=topic_id), version)
        assert fetched(answer, version) == {(name, 0): (42, "note", 0), (name, 1): (-1, "", 0)}

    broker.run(story())


@pytest.mark.parametrize("version", range(2, 11))
def test_t51_null_asks_for_all_topics(broker, version):
    async def story():
        await ready(broker, "orders", "returns")
        await broker.send(8, commit_of(1), 8)
        await broker.send(8, commit_of(2, topic="returns", partition=1), 8)
        answer = await broker.send(9, fetch_of(version, topics=None), version)
        assert sorted(offset for offset, _, _ in fetched(answer, version).values()) == [1, 2]

    broker.run(story())


def test_t51_several_groups_at_once_each_with_its_own_answer(broker):
    async def story():
        await ready(broker, "orders")
        await broker.send(8, commit_of(1, group="a"), 8)
        await broker.send(8, commit_of(2, group="b"), 8)
        wanted = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=name, topics=wanted) for name in ("a", "b", "unknown", "x" * 2000)]
        answer = await broker.send(9, OffsetFetchRequest(groups=groups, require_stable=True), 9)
        offsets = [[p.committed_offset for t in g.topics for p in t.partitions] for g in answer.groups]
        assert offsets == [[1], [2], [-1], []]
        assert [g.error_code for g in answer.groups] == [0, 0, 0, ErrorCode.INVALID_GROUP_ID]

    broker.run(story())


def test_t51_an_error_of_the_group_is_at_every_partition_up_to_version_7(broker):
    """aiokafka ignores the error of the group: an answer without partitions would mean that nothing is committed."""

    async def story():
        broker.create_topic("orders", 1)
        for version in range(1, 8):
            answer = await broker.send(9, fetch_of(version, indexes=(0,)), version)
            assert fetched(answer, version) == {("orders", 0): (-1, "", ErrorCode.NOT_COORDINATOR)}
            assert version == 1 or answer.error_code == ErrorCode.NOT_COORDINATOR

    broker.run(story())


def test_commits_for_unknown_topics_and_partitions_are_refused_one_by_one(broker):
    async def story():
        await ready(broker, "orders")
        request = commit_of(1)
        request.topics[0].partitions.append(OffsetCommitRequestPartition(partition_index=9))
        request.topics.append(
            OffsetCommitRequestTopic(name="nowhere", partitions=[OffsetCommitRequestPartition(partition_index=0)])
        )
        response = await broker.send(8, request, 8)
        errors = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
        assert errors == {
            ("orders", 0): 0,
            ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        by_id = await broker.send(8, commit_of(1, topic="", topic_id=b"x" * 16), 10)
        assert by_id.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    broker.run(story())


def test_committed_offsets_are_gone_after_the_topic_was_recreated(broker):
    async def story():
        await ready(broker, "orders")
        await broker.send(8, commit_of(42), 8)
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")])
        await broker.send(20, delete, 6)
        broker.create_topic("orders", 2)
        await asyncio.sleep(0.01)
        answer = await broker.send(9, fetch_of(8), 8)
        assert fetched(answer, 8)["orders", 0] == (-1, "", 0)

    broker.run(story())


def make_anew(broker, topic):
    decision = delete_topics(broker.broker.image, [DeleteTopicState(name=topic)])
    broker.commit(decision.records)
    broker.create_topic(topic, 2)


def test_offset_fetch_of_all_topics_by_id_leaves_out_offsets_of_a_deleted_namesake(broker):
    async def story():
        await ready(broker, "orders", "kept")
        await broker.send(8, commit_of(42), 8)
        await broker.send(8, commit_of(43, topic="kept"), 8)
        make_anew(broker, "orders")
        # Before the turn in which the old offsets are removed.
        answer = await broker.send(9, fetch_of(10, topics=None), 10)
        kept = broker.broker.image.topics["kept"].topic_id
        assert [topic.topic_id for topic in answer.groups[0].topics] == [kept]
        await broker.send(8, commit_of(1, partition=1), 8)
        answer = await broker.send(9, fetch_of(10, topics=None), 10)
        assert sorted(offset for offset, _, _ in fetched(answer, 10).values()) == [1, 43]

    broker.run(story())


@pytest.mark.parametrize("when", ["before the stop", "while its groups are loaded"])
def test_committed_offsets_of_a_recreated_topic_are_gone_after_a_restart_too(broker, when):
    async def before():
        await ready(broker, "orders", "kept")
        await broker.send(8, commit_of(42), 8)
        await broker.send(8, commit_of(43, topic="kept"), 8)
        if when == "before the stop":
            make_anew(broker, "orders")

    broker.run(before())
    restarted = broker.restarted()

    async def after():
        await restarted.start()
        if when != "before the stop":
            make_anew(restarted, "orders")
        await asyncio.sleep(0.1)
        offsets = fetched(await restarted.send(9, fetch_of(8, topics=("orders", "kept")), 8), 8)
        assert offsets["orders", 0] == (-1, "", 0)
        assert offsets["kept", 0] == (43, "", 0)

    restarted.run(after())


def test_the_records_in_the_offsets_topic_are_kafkas(broker):
    async def story():
        await ready(broker, "orders")
        member, generation = await member_of(broker)
        await broker.send(8, commit_of(42, member=member, generation=generation, metadata="n"), 8)
        await broker.send(8, commit_of(43, group="old", retention_time_ms=1000), 2)

    broker.run(story())
    seen = []
    for index in range(3):
        log = broker.partitions.get(OFFSETS_TOPIC, index).log
        region = log.read(0, 1 << 20, log.log_end_offset, True)
        if region is not None:
            seen += [record for batch in iter_batches(region.read()) for record in iter_records(batch.data)]
    decoded = [(decode_group_key(r.key), r.value) for r in seen]
    offsets = {key.group: value for key, value in decoded if isinstance(key, OffsetCommitKey)}
    assert offsets[GROUP][:2] == b"\x00\x04"
    stored = decode_group_value(OffsetCommitKey(), offsets[GROUP])
    assert isinstance(stored, OffsetCommitValue)
    assert (stored.offset, stored.leader_epoch, stored.metadata) == (42, 3, "n")
    assert stored.topic_id == broker.broker.image.topics["orders"].topic_id
    assert offsets["old"][:2] == b"\x00\x01"
    groups = [decode_group_value(key, value) for key, value in decoded if not isinstance(key, OffsetCommitKey)]
    assert all(isinstance(value, GroupMetadataValue) for value in groups)
    assert [(value.generation, len(value.members)) for value in groups] == [(0, 0), (1, 1)]


# Membership over the wire.


@pytest.mark.parametrize("version", range(10))
def test_join_in_every_version(broker, version):
    async def story():
        await ready(broker, "orders")
        told = await broker.send(11, join_of(), version, client_id="app")
        if version >= 4:
            assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert told.protocol_name == (None if version >= 7 else "")
            told = await broker.send(11, join_of(told.member_id), version, client_id="app")
        assert (told.error_code, told.generation_id, told.protocol_name) == (0, 1, "range")
        assert told.member_id.startswith("app-")
        assert len(told.member_id) == len("app-") + 36
        assert told.leader == told.member_id
        assert [m.metadata for m in told.members] == [subscription("orders")]
        if version >= 7:
            assert told.protocol_type == "consumer"

    broker.run(story())


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group": "g" * 1025}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member": "m" * 100}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_invalid_joins_are_refused(broker, change, error):
    async def story():
        await ready(broker)
        assert (await broker.send(11, join_of(**change), 9)).error_code == error

    broker.run(story())


def test_two_members_rebalance_and_a_dead_member_is_removed_after_its_session(broker):
    async def story():
        await ready(broker, "orders")
        ann = (await broker.send(11, join_of(), 9)).member_id
        first = await broker.send(11, join_of(ann), 9)
        bob = (await broker.send(11, join_of(), 9)).member_id
        bobs = broker.later(11, join_of(bob), 9)
        await asyncio.sleep(1)
        assert not bobs.done()
        beat = HeartbeatRequest(group_id=GROUP, generation_id=first.generation_id, member_id=ann)
        assert (await broker.send(12, beat, 4)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        anns = await broker.send(11, join_of(ann), 9)
        assert (anns.generation_id, len(anns.members)) == (2, 2)
        assert (await bobs).generation_id == 2
        waiting = broker.later(14, SyncGroupRequest(group_id=GROUP, generation_id=2, member_id=bob), 4)
        assignments = [SyncGroupRequestAssignment(member_id=m, assignment=m.encode()) for m in (ann, bob)]
        leader = SyncGroupRequest(group_id=GROUP, generation_id=2, member_id=ann, assignments=assignments)
        assert (await broker.send(14, leader, 4)).assignment == ann.encode()
        assert (await waiting).assignment == bob.encode()
        for _ in range(4):
            await asyncio.sleep(3)
            heard = await broker.send(12, HeartbeatRequest(group_id=GROUP, generation_id=2, member_id=ann), 4)
        assert heard.error_code == ErrorCode.REBALANCE_IN_PROGRESS, "bob was silent for ten seconds"

    broker.run(story())


@pytest.mark.parametrize("version", range(6))
def test_leave_in_every_version(broker, version):
    async def story():
        await ready(broker, "orders")
        member, _ = await member_of(broker)
        if version < 3:
            request = LeaveGroupRequest(group_id=GROUP, member_id=member)
        else:
            request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member)])
        assert (await broker.send(13, request, version)).error_code == 0
        again = await broker.send(13, request, version)
        errors = again.error_code if version < 3 else again.members[0].error_code
        assert errors == ErrorCode.UNKNOWN_MEMBER_ID

    broker.run(story())


def test_sync_must_name_the_protocol_from_version_5_on(broker):
    async def story():
        await ready(broker, "orders")
        member, generation = await member_of(broker)
        nameless = SyncGroupRequest(group_id=GROUP, generation_id=generation, member_id=member)
        assert (await broker.send(14, nameless, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        nameless.protocol_type, nameless.protocol_name = "consumer", "range"
        answer = await broker.send(14, nameless, 5)
        assert (answer.error_code, answer.protocol_name, answer.assignment) == (0, "range", b"mine")

    broker.run(story())


# Groups as a whole.


@pytest.mark.parametrize("version", range(7))
def test_t52_an_unknown_group_is_dead_and_an_error_only_from_version_6_on(broker, version):
    async def story():
        await ready(broker)
        [group] = (await broker.send(15, DescribeGroupsRequest(groups=["nobody"]), version)).groups
        assert group.group_state == "Dead"
        assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)

    broker.run(story())


@pytest.mark.parametrize("version", range(7))
def test_describe_shows_members_with_metadata_while_stable(broker, version):
    async def story():
        await ready(broker, "orders")
        member, _ = await member_of(broker, instance="i1" if version >= 4 else None)
        request = DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=version >= 3)
        [group] = (await broker.send(15, request, version)).groups
        assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
        [shown] = group.members
        assert (shown.member_id, shown.client_id, shown.client_host) == (member, "test", "/127.0.0.1")
        assert (shown.member_metadata, shown.member_assignment) == (subscription("orders"), b"mine")
        if version >= 4:
            assert shown.group_instance_id == "i1"
        if version >= 3:
            assert group.authorized_operations & (1 << Operation.READ)
        broker.later(11, join_of(), 0)
        await asyncio.sleep(0)
        [group] = (await broker.send(15, request, version)).groups
        assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
        assert group.members[0].member_metadata == b""
        broker.broker.groups.stop()
        await asyncio.sleep(0.1)

    broker.run(story())


def test_list_filters_by_state_and_type_whatever_their_case(broker):
    async def story():
        await ready(broker, "orders")
        await member_of(broker, group="stable")
        await broker.send(8, commit_of(1, group="simple"), 8)

        async def listed(**filters):
            groups = (await broker.send(16, ListGroupsRequest(**filters), 5)).groups
            return sorted((g.group_id, g.protocol_type, g.group_state, g.group_type) for g in groups)

        simple, stable = ("simple", "", "Empty", "classic"), ("stable", "consumer", "Stable", "classic")
        assert await listed() == [simple, stable]
        assert await listed(states_filter=["stable"]) == [stable]
        assert await listed(states_filter=[" EMPTY", "Dead"]) == [simple]
        assert await listed(types_filter=["Classic"]) == [simple, stable]
        assert await listed(types_filter=["consumer"]) == []
        assert await listed(types_filter=["no such type"]) == []
        old = (await broker.send(16, ListGroupsRequest(), 0)).groups
        assert sorted(g.group_id for g in old) == ["simple", "stable"]

    broker.run(story())


@pytest.mark.parametrize("version", range(4))
def test_delete_groups(broker, version):
    async def story():
        await ready(broker, "orders")
        await member_of(broker, group="busy")
        await broker.send(8, commit_of(1, group="idle"), 8)
        request = DeleteGroupsRequest(groups_names=["busy", "idle", "unknown", "idle"])
        response = await broker.send(42, request, version)
        assert [(r.group_id, r.error_code) for r in response.results] == [
            ("busy", ErrorCode.NON_EMPTY_GROUP),
            ("idle", 0),
            ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        answer = await broker.send(9, fetch_of(8, group="idle"), 8)
        assert fetched(answer, 8)["orders", 0] == (-1, "", 0)

    broker.run(story())


def test_offset_delete(broker):
    async def story():
        await ready(broker, "orders", "returns")
        member, generation = await member_of(broker)
        for topic in ("orders", "returns"):
            await broker.send(8, commit_of(1, topic=topic, member=member, generation=generation), 8)
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in ("orders", "returns", "nowhere")
        ]
        response = await broker.send(47, OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
        assert [(t.name, t.partitions[0].error_code) for t in response.topics] == [
            ("orders", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
            ("returns", 0),
            ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        unknown = await broker.send(47, OffsetDeleteRequest(group_id="unknown", topics=topics), 0)
        assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    broker.run(story())


# Restart, permission, replication.


def test_a_commit_during_the_stop_does_not_begin_a_new_coordination(broker):
    async def story():
        broker.broker.groups.stop()
        await ready(broker)
        heard = await broker.send(12, HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"), 4)
        assert heard.error_code == ErrorCode.NOT_COORDINATOR

    broker.run(story())


def test_after_a_restart_groups_and_offsets_are_there_and_members_go_on(broker, monkeypatch):
    monkeypatch.setattr("odradek.coordinator.runtime.LOAD_BYTES", 1000)

    async def before():
        await ready(broker, "orders")
        member, generation = await member_of(broker)
        for offset in range(600):
            await broker.send(8, commit_of(offset, member=member, generation=generation), 8)
        return member, generation

    member, generation = broker.run(before())
    restarted = broker.restarted()

    async def after():
        await restarted.start()
        beat = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member)
        loading = await restarted.send(9, fetch_of(7, stable=True), 7)
        assert loading.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await restarted.send(12, beat, 4)).error_code == 0, "members do not notice the loading"
        assert (await restarted.send(16, ListGroupsRequest(), 5)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(0.1)
        assert fetched(await restarted.send(9, fetch_of(7), 7), 7)["orders", 0] == (599, "", 0)
        assert (await restarted.send(12, beat, 4)).error_code == 0
        await asyncio.sleep(11)
        assert (await restarted.send(12, beat, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    restarted.run(after())


def test_kafka_10614_a_partition_that_is_led_again_during_loading_is_loaded_again(broker, monkeypatch):
    """The first load belongs to a leadership that is over: it must neither serve requests nor end the second load."""
    monkeypatch.setattr("odradek.coordinator.runtime.LOAD_BYTES", 1000)

    def led_by(leader: int) -> None:
        offsets_topic = broker.broker.image.topics[OFFSETS_TOPIC]
        index = broker.broker.groups.partition_for(GROUP)
        broker.commit([PartitionChangeRecord(topic_id=offsets_topic.topic_id, partition_id=index, leader=leader)])

    async def story():
        await ready(broker, "orders")
        for offset in range(200):
            await broker.send(8, commit_of(offset), 8)
        me = broker.broker.node_id
        for _ in range(3):
            led_by(me + 1)
            assert (await broker.send(9, fetch_of(7), 7)).error_code == ErrorCode.NOT_COORDINATOR
            led_by(me)
            await asyncio.sleep(0)
            assert (await broker.send(9, fetch_of(7), 7)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(0.1)
        assert fetched(await broker.send(9, fetch_of(7), 7), 7)["orders", 0] == (199, "", 0)
        assert (await broker.send(8, commit_of(200), 8)).topics[0].partitions[0].error_code == 0

    broker.run(story())


def test_a_partition_that_cannot_be_read_has_no_coordinator_and_other_partitions_have_one(broker):
    async def before():
        await ready(broker, "orders")
        for number in range(20):
            await broker.send(8, commit_of(number, group=f"g{number}"), 8)

    broker.run(before())
    restarted = broker.restarted()

    async def after():
        blocking, broken = restarted.broker.spawner.blocking, [True]

        async def fails_once(call, *args):
            if broken:
                broken.clear()
                raise OSError("the disk is gone")
            return await blocking(call, *args)

        restarted.broker.spawner.blocking = fails_once
        await restarted.start()
        await asyncio.sleep(0.1)
        seen = {}
        for number in range(20):
            index = restarted.broker.groups.partition_for(f"g{number}")
            seen[index] = (await restarted.send(9, fetch_of(7, group=f"g{number}"), 7)).error_code
        assert seen == {0: ErrorCode.NOT_COORDINATOR, 1: 0, 2: 0}

    restarted.run(after())


def change_first_partition(broker: GroupBroker, **change) -> None:
    topic_id = broker.broker.image.topics[OFFSETS_TOPIC].topic_id
    broker.commit([PartitionChangeRecord(topic_id=topic_id, partition_id=0, **change)])


def restarted_with_too_few_replicas() -> GroupBroker:
    """A broker with offsets in all three partitions, the first of which cannot commit what is there."""
    broker = GroupBroker(settings={"min.insync.replicas": "2"})

    async def before():
        await ready(broker, "orders")
        for number in range(20):
            await broker.send(8, commit_of(number, group=f"g{number}"), 8)

    broker.run(before())
    me = broker.broker.node_id
    change_first_partition(broker, replicas=[me, me + 1, me + 2], isr=[me])
    return broker.restarted()


async def answers_by_partition(broker: GroupBroker) -> dict[int, set]:
    """The OffsetFetch answers for the groups of each partition: an error, or whether the offset is right."""
    seen = {}
    for number in range(20):
        response = await broker.send(9, fetch_of(7, group=f"g{number}"), 7)
        is_right = fetched(response, 7).get(("orders", 0)) == (number, "", 0)
        index = broker.broker.groups.partition_for(f"g{number}")
        seen.setdefault(index, set()).add(ErrorCode(response.error_code) or is_right)
    return seen


def test_a_partition_with_too_few_replicas_to_commit_does_not_keep_others_from_being_loaded():
    broker = restarted_with_too_few_replicas()

    async def story():
        await broker.start()
        await asyncio.sleep(0.1)
        waits = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert await answers_by_partition(broker) == {0: waits, 1: {True}, 2: {True}}
        listed = await broker.send(16, ListGroupsRequest(), 5)
        assert (listed.error_code, len(listed.groups)) == (0, 20)
        change_first_partition(broker, replicas=[broker.broker.node_id])
        await asyncio.sleep(0.1)
        assert await answers_by_partition(broker) == {0: {True}, 1: {True}, 2: {True}}

    broker.run(story())


@pytest.mark.parametrize("others", [(), (1,)], ids=["in its own next epoch", "by another and then by itself"])
def test_loading_that_waits_for_a_commit_ends_when_the_leadership_ends(others, caplog):
    broker = restarted_with_too_few_replicas()

    async def story():
        await broker.start()
        await asyncio.sleep(0.1)
        waiting = len(asyncio.all_tasks())
        for leader in [*others, 0]:
            change_first_partition(broker, leader=broker.broker.node_id + leader)
        await asyncio.sleep(0.1)
        assert (await answers_by_partition(broker))[0] == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert len(asyncio.all_tasks()) == waiting, "one waits, as before"
        change_first_partition(broker, replicas=[broker.broker.node_id])
        await asyncio.sleep(0.1)
        assert (await answers_by_partition(broker))[0] == {True}

    broker.run(story())
    assert "cannot be loaded" not in caplog.text


def test_loading_that_waits_for_a_commit_ends_at_a_stop():
    broker = restarted_with_too_few_replicas()

    async def story():
        await broker.start()
        await asyncio.sleep(0.1)
        broker.broker.groups.stop()
        await asyncio.sleep(0.1)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    broker.run(story())


def test_a_commit_waits_for_the_high_watermark_and_gives_up_after_the_commit_timeout(broker):
    async def story():
        await ready(broker, "orders")
        index = broker.broker.groups.partition_for(GROUP)
        partition = broker.partitions.get(OFFSETS_TOPIC, index)
        partition._held_at = partition.log.log_end_offset  # as if a sync were under way
        waiting = broker.later(8, commit_of(1), 8)
        reading = broker.later(9, fetch_of(7, stable=True), 7)
        await asyncio.sleep(1)
        assert not waiting.done()
        assert not reading.done()
        unstable = await broker.send(9, fetch_of(7), 7)
        assert fetched(unstable, 7)["orders", 0] == (-1, "", 0)
        await asyncio.sleep(5)
        assert (await waiting).topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await reading).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        again = broker.later(8, commit_of(2), 8)
        await asyncio.sleep(0)
        partition.synced(partition.log.log_end_offset, again=False)
        assert (await again).topics[0].partitions[0].error_code == 0
        assert fetched(await broker.send(9, fetch_of(7), 7), 7)["orders", 0] == (2, "", 0)

    broker.run(story())


def test_a_stable_offset_fetch_does_not_return_empty_offsets_when_the_groups_are_unloaded_meanwhile(broker):
    async def story():
        await ready(broker, "orders")
        index = broker.broker.groups.partition_for(GROUP)
        partition = broker.partitions.get(OFFSETS_TOPIC, index)
        partition._held_at = partition.log.log_end_offset  # as if a sync were under way
        broker.later(8, commit_of(1), 8)
        reading = broker.later(9, fetch_of(7, stable=True), 7)
        await asyncio.sleep(1)
        partition.synced(partition.log.log_end_offset, again=False)
        broker.broker.groups.stop()
        assert fetched(await reading, 7)["orders", 0] == (1, "", 0)

    broker.run(story())


def test_a_group_too_large_for_one_batch_is_refused_and_nothing_breaks(broker):
    async def story():
        await ready(broker, "orders")
        big = join_of(protocols={"range": bytes(1_000_000)})
        told = await broker.send(11, big, 3)
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id=told.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=told.member_id, assignment=bytes(100_000))],
        )
        assert (await broker.send(14, sync, 3)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await broker.send(8, commit_of(1, group="other"), 8)).topics[0].partitions[0].error_code == 0

    broker.run(story())


def test_a_stopped_coordinator_answers_waiting_requests_with_not_coordinator(broker):
    async def story():
        await ready(broker, "orders")
        member, _ = await member_of(broker)
        bob = broker.later(11, join_of(), 3)
        await asyncio.sleep(0)
        broker.broker.groups.stop()
        assert (await bob).error_code == ErrorCode.NOT_COORDINATOR
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member)
        assert (await broker.send(12, beat, 4)).error_code == ErrorCode.NOT_COORDINATOR

    broker.run(story())


def test_topics_without_describe_permission_are_left_out_or_refused():
    denied = []

    def denies(operation, resource_type, name):
        return resource_type is ResourceType.TOPIC and name in denied

    broker = GroupBroker(authorizer=Denying(denies))

    async def story():
        await ready(broker, "orders", "secret")
        for topic in ("orders", "secret"):
            await broker.send(8, commit_of(1, topic=topic), 8)
        denied.append("secret")
        response = await broker.send(8, commit_of(1, topic="secret"), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer = await broker.send(9, fetch_of(8, topics=("orders", "secret"), indexes=(0,)), 8)
        assert fetched(answer, 8) == {
            ("orders", 0): (1, "", 0),
            ("secret", 0): (-1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        }
        assert fetched(await broker.send(9, fetch_of(8, topics=None), 8), 8) == {("orders", 0): (1, "", 0)}

    broker.run(story())


def test_timers_that_are_due_with_one_that_fails_are_not_lost(broker, monkeypatch):
    async def story():
        await ready(broker, "orders")
        for group in ("first", "second", "third"):
            await member_of(broker, group=group, session_ms=6000)
        fire = GroupShard.timer_fired

        def fail_for_the_second(shard, key, now):
            if key[1] == "second":
                raise InvariantBroken("as if")
            return fire(shard, key, now)

        monkeypatch.setattr(GroupShard, "timer_fired", fail_for_the_second)
        await asyncio.sleep(7)

    with pytest.raises(SimulationFailed, match="as if"):
        broker.run(story())
    broker.loop.failures.clear()

    async def later():
        await asyncio.sleep(0.01)
        return [broker.broker.groups.shard(group).groups[group].state for group in ("first", "third")]

    assert broker.run(later()) == [GroupState.EMPTY, GroupState.EMPTY]


def test_a_waiting_request_is_still_answered_when_the_timeout_of_an_earlier_one_fails(broker, monkeypatch):
    def fail(*_):
        raise InvariantBroken("as if")

    async def story():
        await ready(broker, "orders")
        partition = broker.partitions.get(OFFSETS_TOPIC, broker.broker.groups.partition_for(GROUP))
        partition._held_at = partition.log.log_end_offset  # as if a sync were under way
        monkeypatch.setattr("odradek.coordinator.group.committing.refused", fail)
        broker.later(8, commit_of(1), 8)
        await asyncio.sleep(1)
        reading.append(broker.later(9, fetch_of(7, stable=True), 7))
        await asyncio.sleep(5)

    reading: list[asyncio.Task] = []
    with pytest.raises(SimulationFailed, match="as if"):
        broker.run(story())
    broker.loop.failures.clear()

    async def later():
        async with asyncio.timeout(2):
            return (await reading[0]).error_code

    assert broker.run(later()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
