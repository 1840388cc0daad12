"""Drives the groups of one partition step by step: names instead of connections, and virtual time.

Appended records are kept in encoded form, so that a test can end with `replayed()`: the state after a restart.
"""

from __future__ import annotations

import struct

from odradek.base.errors import ErrorCode
from odradek.coordinator.effects import Effects
from odradek.coordinator.group.changes import CommittedOffset, PartitionKey
from odradek.coordinator.group.config import GroupConfig
from odradek.coordinator.group.joining import Joining
from odradek.coordinator.group.shard import GroupShard
from odradek.metadata.image import ClusterImage, ImageDelta, TopicImage
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.p13_leave_group import MemberIdentity
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.virtual_time import VirtualTime

GROUP = "orders-readers"


def subscription(*topics: str, version: int = 0) -> bytes:
    encoded = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + encoded + struct.pack(">i", -1)


class Story(VirtualTime):
    def __init__(self, **config) -> None:
        super().__init__()
        self.config = GroupConfig(**{"initial_rebalance_delay_ms": 0, **config})
        self.shard = GroupShard(self.config)
        self.log: list[tuple[bytes, bytes | None]] = []
        # Responses by the name of the sender of the request, newest last.
        self.answers: dict[str, list] = {}
        self.append_error = ErrorCode.NONE
        # While True the high watermark does not advance, as with a lagging follower.
        self.held = False
        self._waiting: list = []
        self._ids = 0

    @property
    def group(self):
        return self.shard.groups[GROUP]

    def load(self) -> None:
        self.perform(self.shard.loaded(self.now, ClusterImage(cluster_id="c")))

    def delete_topics(self, names_by_id: dict[bytes, str]) -> None:
        image = ClusterImage(cluster_id="c")
        deleted = tuple(
            TopicImage(topic_id=topic_id, name=name, partitions={}) for topic_id, name in names_by_id.items()
        )
        self.perform(self.shard.metadata_changed(self.now, image, ImageDelta(deleted=deleted)))

    def perform(self, effects: Effects) -> None:
        self.set_timers(effects)
        for to, response in effects.replies:
            self.answers.setdefault(to, []).append(response)
        if effects.append is not None:
            self._append(effects.append)

    def _append(self, append) -> None:
        if self.append_error:
            self.perform(append.then(self.append_error, self.now))
            return
        for change in append.changes:
            at = len(self.log)
            self.log.append(self.shard.encode(change))
            if append.replay:
                self.shard.replay(change, at)
        self._waiting.append(append)
        if not self.held:
            self.commit()

    def commit(self) -> None:
        self.held = False
        self.shard.commit(len(self.log))
        waiting, self._waiting = self._waiting, []
        for append in waiting:
            self.perform(append.then(ErrorCode.NONE, self.now))

    def give_up_oldest_write(self) -> None:
        """The commit timed out: its request fails, but the record stays in the log."""
        self.perform(self._waiting.pop(0).then(ErrorCode.COORDINATOR_NOT_AVAILABLE, self.now))

    def answer(self, who: str):
        """The next response to `who`, or None while the request is parked."""
        given = self.answers.get(who)
        return given.pop(0) if given else None

    def join(self, who: str, member_id: str = "", *, instance: str | None = None, topics=("orders",), protocols=None,
             protocol_type: str = "consumer", knows_its_id: bool = False, session_ms: int = 10_000,
             rebalance_ms: int = 60_000, version9: bool = True, host: str = "/10.0.0.1", group=GROUP):  # fmt: skip
        """With `knows_its_id` a new member joins at once, as before KIP-394."""
        self._ids += 1
        supported = {"range": subscription(*topics)} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in supported.items()],
        )
        event = Joining(
            request=request,
            client_id=who,
            client_host=host,
            new_member_id=f"{instance or who}-{self._ids}",
            must_know_its_id=not knows_its_id,
            can_skip_assignment=version9,
            to=who,
        )
        self.perform(self.shard.join(event, self.now))
        return self.answer(who)

    def sync(self, who: str, member_id: str, generation: int, assignments=None, *, instance=None, protocol=None):
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=to, assignment=data) for to, data in (assignments or {}).items()
            ],
        )
        self.perform(self.shard.sync(request, who, self.now))
        return self.answer(who)

    def heartbeat(self, member_id: str, generation: int, instance=None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        self.perform(self.shard.heartbeat(request, "heart", self.now))
        return ErrorCode(self.answer("heart").error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        leaving = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in members]
        self.perform(self.shard.leave(GROUP, leaving, "leaver", self.now))
        return [ErrorCode(member.error_code) for member in self.answer("leaver").members]

    def commit_offset(self, offset: int, member_id: str = "", generation: int = -1, *, topic="orders", partition=0,
                      instance=None, version: int = 8, metadata: str | None = "", retention_ms: int = -1,
                      group: str = GROUP, topic_id: bytes = bytes(16), producer=None) -> ErrorCode | None:  # fmt: skip
        """`producer`: commits in its transaction."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        if producer is None:
            self.perform(self.shard.commit_offsets(request, version, "committer", self.now))
        else:
            self.perform(self.shard.commit_offsets_in_transaction(request, version, producer, "committer", self.now))
        response = self.answer("committer")
        if response is None:
            return None
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def committed(self, topic: str = "orders", partition: int = 0, group: str = GROUP) -> CommittedOffset | None:
        return self.shard.committed_offsets(group).get(PartitionKey(topic, partition))

    def form(self, *people: str, **joining) -> dict[str, str]:
        """Form a stable group of these members, the first is the leader. Returns their member ids."""
        for who in people:
            assert self.join(who, knows_its_id=True, **joining) is None
        self.pass_time(0)
        ids = {who: self.answer(who).member_id for who in people}
        return self.settle(ids)

    def settle(self, ids: dict[str, str]) -> dict[str, str]:
        """All members sync. The assignment of each is its own name."""
        generation = self.group.generation
        for who, member_id in ids.items():
            if member_id != self.group.leader:
                self.sync(who, member_id, generation)
        leader = next(who for who, member_id in ids.items() if member_id == self.group.leader)
        assignments = {member_id: who.encode() for who, member_id in ids.items()}
        assert self.sync(leader, ids[leader], generation, assignments).error_code == 0
        for who in ids:
            self.answers.pop(who, None)
        return ids

    def replayed(self) -> GroupShard:
        """The state after a restart."""
        shard = GroupShard(self.config)
        for at, (key, value) in enumerate(self.log):
            shard.replay(shard.decode(key, value), at)
        shard.commit(len(self.log))
        return shard
