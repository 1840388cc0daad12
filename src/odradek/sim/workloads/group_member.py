"""Members of a classic consumer group: join, sync, heartbeat, read, commit, leave or vanish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.p09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.p13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from odradek.sim.client import BrokerConnection
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.reading import (
    EARLIEST,
    FETCH_VERSION,
    PartitionReader,
    fetch_request,
    leadership_of,
    list_offset,
)
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

_SESSION_TIMEOUT_MS = 3000
_REBALANCE_TIMEOUT_MS = 5000
# Errors after which the member rejoins; the request was certainly not executed.
_REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)


@dataclass(slots=True)
class GroupPlan:
    """One group, and all answers that its members got."""

    group: str
    places: tuple[Place, ...]
    # Whether its commits survive everything that can happen in this run.
    safe: bool
    alone: bool
    owners: dict[tuple[int, int, Place], str] = field(default_factory=dict)
    committed: dict[Place, int] = field(default_factory=dict)
    attempted: dict[Place, int] = field(default_factory=dict)
    # Sent and never answered: on a closed connection they may arrive at any time, even after later ones.
    in_doubt: dict[Place, list[int]] = field(default_factory=dict)
    # The newest leaders that they read from; clients commit this with the offset.
    leader_epochs: dict[Place, int] = field(default_factory=dict)

    def owns(self, incarnation: int, generation: int, place: Place, member: str) -> None:
        # A group that lost its state in a power cut may count its generations from the beginning again.
        if not self.safe and not self.alone:
            return
        era = 0 if self.safe else incarnation
        owner = self.owners.setdefault((era, generation, place), member)
        if owner != member:
            raise Violation(f"G1 {place} belongs to {owner} and {member} in generation {generation} of {self.group}")

    def was_read(self, place: Place, leader_epoch: int) -> None:
        self.leader_epochs[place] = max(leader_epoch, self.leader_epochs.get(place, -1))

    def heed_range(self, place: Place, leader_epoch: int) -> None:
        """The position is out of range: a deposed leader that does not know it yet lacks the new leader's records."""
        if leader_epoch < self.leader_epochs.get(place, -1):
            raise AskAgain(f"epoch {leader_epoch} is over")

    def attempt(self, place: Place, offset: int) -> None:
        self.attempted[place] = max(offset, self.attempted.get(place, -1))
        self.in_doubt.setdefault(place, []).append(offset)

    def refused(self, place: Place, offset: int) -> None:
        self.in_doubt[place].remove(offset)

    def acknowledge(self, place: Place, offset: int, *, may_go_back: bool = False) -> None:
        self.in_doubt[place].remove(offset)
        self.committed[place] = offset if may_go_back else max(offset, self.committed.get(place, -1))

    def found_commit(self, place: Place, offset: int, known: int) -> None:
        """`known`: what was acknowledged before the question was asked."""
        floor = self.committed.get(place, -1)
        if offset in self.in_doubt.get(place, ()):
            # It arrived after later ones. A member that reads this offset continues from there.
            self.committed[place] = min(offset, floor)
            return
        at_least = min(known, floor)
        if self.safe and not at_least <= offset <= self.attempted.get(place, -1):
            raise Violation(
                f"G4 {self.group} committed {at_least} of {place}, the coordinator returns {offset}, "
                f"at most {self.attempted.get(place, -1)} was ever sent"
            )


class RejoinNeeded(Exception):
    pass


async def fetch_commits(
    connection: BrokerConnection, group: str, places: Sequence[Place], timeout_s: float
) -> OffsetFetchResponse:
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition]) for topic, partition in places],
    )
    return await connection.ask(request, 5, OffsetFetchResponse, timeout_s)


class GroupClient(Worker):
    """A client that knows what the group has committed, and compares."""

    def __init__(self, name: str, errand: Errand, plan: GroupPlan) -> None:
        super().__init__(name, errand)
        self.plan = plan

    async def ask_commits(
        self, coordinator: BrokerConnection, places: Sequence[Place]
    ) -> tuple[dict[Place, int], bool]:
        """The committed offsets, and whether the answer counts.

        A coordinator that was deposed and does not know it yet may answer with old offsets; that is allowed.
        """
        group = self.plan.group
        known = {place: self.plan.committed.get(place, -1) for place in places}
        in_charge = self.errand.in_charge(coordinator.address, group)
        answer = await fetch_commits(coordinator, group, places, self.errand.request_timeout_s)
        refuse(self.name, answer.error_code, "the group's offsets")
        counts = in_charge is not None and in_charge == self.errand.in_charge(coordinator.address, group)
        found: dict[Place, int] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                refuse(self.name, partition.error_code, "an offset of the group")
                place = (topic.name, partition.partition_index)
                found[place] = partition.committed_offset
                if counts:
                    self.plan.found_commit(place, partition.committed_offset, known[place])
        return found, counts


class CommitAuditor(GroupClient):
    """Not a member: asks now and then what the group has committed."""

    async def work(self, session: Session) -> None:
        coordinator = await session.coordinator(self.plan.group)
        while not self.finished():
            await self.ask_commits(coordinator, self.plan.places)
            await self.errand.pause()


class GroupMember(GroupClient):
    def __init__(self, name: str, errand: Errand, plan: GroupPlan) -> None:
        super().__init__(name, errand, plan)
        self._member_id = ""
        self._generation = -1
        # By which incarnation of a coordinator, in which generation: the last one in which it was given anything.
        self._assigned_in: tuple[object, int] = (None, -1)
        # Otherwise it continues from old offsets, and may commit them at the new coordinator.
        self._told_the_truth = True

    async def work(self, session: Session) -> None:
        coordinator = await session.coordinator(self.plan.group)
        while not self.finished():
            try:
                places = await self._join(coordinator)
                await self._consume(session, coordinator, places)
            except RejoinNeeded:
                continue
        await self._leave(coordinator)

    async def _join(self, connection: BrokerConnection) -> list[Place]:
        topics = sorted({topic for topic, _ in self.plan.places})
        subscription = b"\0\0" + ConsumerProtocolSubscription(topics=topics).encode(0)
        request = JoinGroupRequest(
            group_id=self.plan.group,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        timeout_s = self.errand.request_timeout_s + _REBALANCE_TIMEOUT_MS / 1000
        joined = await connection.ask(request, 5, JoinGroupResponse, timeout_s)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise RejoinNeeded
        self._heed(joined.error_code, "to join")
        self._member_id = joined.member_id
        self._generation = joined.generation_id
        members = [member.member_id for member in joined.members] if joined.leader == joined.member_id else []
        return await self._sync(connection, members)

    async def _sync(self, connection: BrokerConnection, members: list[str]) -> list[Place]:
        request = SyncGroupRequest(
            group_id=self.plan.group,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=self._share(index, len(members)))
                for index, member in enumerate(members)
            ],
        )
        timeout_s = self.errand.request_timeout_s + _REBALANCE_TIMEOUT_MS / 1000
        answer = await connection.ask(request, 3, SyncGroupResponse, timeout_s)
        self._heed(answer.error_code, "its assignment")
        assignment = ConsumerProtocolAssignment.decode(answer.assignment, 0, 2)
        places = [
            (topic.topic, partition) for topic in assignment.assigned_partitions for partition in topic.partitions
        ]
        # A coordinator that was deposed and does not know it yet may repeat old answers; it can store nothing.
        coordinator, generation = self._assigned_in
        if self.plan.safe and coordinator == connection.incarnation and self._generation < generation:
            raise Violation(f"G2 {self.plan.group} went back from {generation} to {self._generation}")
        self._assigned_in = (connection.incarnation, self._generation)
        for place in places:
            self.plan.owns(connection.incarnation, self._generation, place, self._member_id)
        return places

    def _share(self, index: int, count: int) -> bytes:
        topics: dict[str, list[int]] = {}
        for topic, partition in self.plan.places[index::count]:
            topics.setdefault(topic, []).append(partition)
        assignment = ConsumerProtocolAssignment(
            assigned_partitions=[
                ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in topics.items()
            ]
        )
        return b"\0\0" + assignment.encode(0)

    async def _consume(self, session: Session, coordinator: BrokerConnection, places: list[Place]) -> None:
        readers = await self._resume(coordinator, places)
        led = await session.by_leader(places)
        while not self.finished():
            for leader, led_places in led.items():
                await self._read(session, leader, [reader for reader in readers if reader.place in led_places])
            if readers and self.rng.random() < 0.7:
                await self._commit(coordinator, readers)
            if readers and self.rng.random() < 0.05:
                await self._commit_as_of_old(coordinator, readers[0].place)
            await self._heartbeat(coordinator)
            await self.errand.pause()
            if self.rng.random() < 0.03:
                await self._leave(coordinator)
                raise RejoinNeeded

    async def _read(self, session: Session, leader: BrokerConnection, readers: list[PartitionReader]) -> None:
        request = fetch_request(session, readers, wait_ms=200, partition_bytes=self.rng.choice((1, 2000)))
        answer = await leader.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
        by_place = {reader.place: reader for reader in readers}
        for topic in answer.responses:
            for partition in topic.partitions:
                reader = by_place[topic.topic, partition.partition_index]
                if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not self.plan.safe:
                    reader.position = await list_offset(session, reader.place, EARLIEST, self.errand.request_timeout_s)
                    continue
                leader_epoch = session.leader_epoch(reader.place)
                if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.plan.heed_range(reader.place, leader_epoch)
                refuse(self.name, partition.error_code, f"a read of {reader.place}")
                self.plan.was_read(reader.place, leader_epoch)
                records = reader.take(leadership_of(session, leader, reader.place), partition)
                self.history.polled(leader.incarnation, reader.place, records)

    async def _resume(self, coordinator: BrokerConnection, places: list[Place]) -> list[PartitionReader]:
        found, counts = await self.ask_commits(coordinator, places)
        self._told_the_truth = counts
        return [PartitionReader(place, max(offset, 0)) for place, offset in found.items()]

    async def _commit_as_of_old(self, connection: BrokerConnection, place: Place) -> None:
        """Commits as a member that missed the last rebalance would."""
        answer = await self._send_commit(connection, {place: 0}, self._generation - 1)
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            raise Violation(f"G4 {self.plan.group} took a commit of a generation before {self._generation}")

    async def _commit(self, connection: BrokerConnection, readers: list[PartitionReader]) -> None:
        offsets = {reader.place: reader.position for reader in readers}
        for place, offset in offsets.items():
            self.plan.attempt(place, offset)
        answer = await self._send_commit(connection, offsets, self._generation)
        codes = {
            (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
        }
        for place, code in codes.items():
            if code in _REJOIN:
                self.plan.refused(place, offsets[place])
        for place, code in codes.items():
            self._heed(code, "a commit")
            self.plan.acknowledge(place, offsets[place], may_go_back=not self._told_the_truth)

    async def _send_commit(
        self, connection: BrokerConnection, offsets: dict[Place, int], generation: int
    ) -> OffsetCommitResponse:
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
            )
            for (topic, partition), offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=self.plan.group,
            generation_id_or_member_epoch=generation,
            member_id=self._member_id,
            topics=topics,
        )
        return await connection.ask(request, 7, OffsetCommitResponse, self.errand.request_timeout_s)

    async def _heartbeat(self, connection: BrokerConnection) -> None:
        request = HeartbeatRequest(group_id=self.plan.group, generation_id=self._generation, member_id=self._member_id)
        answer = await connection.ask(request, 3, HeartbeatResponse, self.errand.request_timeout_s)
        self._heed(answer.error_code, "a heartbeat")

    async def _leave(self, connection: BrokerConnection) -> None:
        request = LeaveGroupRequest(group_id=self.plan.group, members=[MemberIdentity(member_id=self._member_id)])
        await connection.ask(request, 3, LeaveGroupResponse, self.errand.request_timeout_s)
        self._member_id = ""

    def _heed(self, code: int, what: str) -> None:
        if code in _REJOIN:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            raise RejoinNeeded
        refuse(self.name, code, what)
