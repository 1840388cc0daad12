"""Changes of voters: each controller must vote with the disk it has, and now and then one is removed for a while."""

from __future__ import annotations

from collections.abc import Callable

from odradek.base.errors import ErrorCode
from odradek.base.ids import DirectoryId
from odradek.protocol.messages.p55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from odradek.protocol.messages.p80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from odradek.protocol.messages.p81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.sim.cluster import controller_endpoint
from odradek.sim.workloads.admin import ADMIN_PAUSES
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

# By number and directory.
Seats = dict[int, DirectoryId]

_METADATA_LOG = DescribeQuorumRequestTopicData(
    topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
)
# Answers to a retry of a change that was executed before.
_DONE = (ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND, ErrorCode.DUPLICATE_VOTER)
# Before anything else is changed, a removal answers within 30 s.
_PATIENCE_S = 5.0


class VoterKeeper(Worker):
    """`seats` says which controllers there are and which disks they have, `restless` whether to remove some."""

    def __init__(self, name: str, errand: Errand, seats: Callable[[], Seats], *, restless: bool) -> None:
        super().__init__(name, errand)
        self._seats = seats
        self._restless = restless
        self._leader = next(iter(seats()))
        # The disks that they had before.
        self._former = seats()
        self._all_seated = False

    def finished(self) -> bool:
        return self._all_seated

    async def work(self, session: Session) -> None:
        while True:
            voters = await self._voters(session)
            seats = self._seats()
            if voters != seats:
                await self._repair(session, voters, seats)
            elif self.errand.closing.is_set():
                self._all_seated = True
                return
            elif self._restless:
                await self._remove(session, self.rng.choice(list(voters.items())))
            await self.errand.pause(ADMIN_PAUSES)

    async def _voters(self, session: Session) -> Seats:
        connection = await session.anyone()
        answer = await connection.ask(
            DescribeQuorumRequest(topics=[_METADATA_LOG]), 2, DescribeQuorumResponse, self.errand.request_timeout_s
        )
        refuse(self.name, answer.error_code, "the quorum")
        described = answer.topics[0].partitions[0]
        refuse(self.name, described.error_code, "the voters")
        self._leader = described.leader_id
        return {
            voter.replica_id: DirectoryId(voter.replica_directory_id)
            for voter in sorted(described.current_voters, key=lambda voter: voter.replica_id)
        }

    async def _repair(self, session: Session, voters: Seats, seats: Seats) -> None:
        """Removes voters with lost disks first."""
        for number, directory in voters.items():
            if seats[number] != directory:
                await self._remove(session, (number, directory))
                return
        number = next(number for number in seats if number not in voters)
        if await self._add(session, number, seats[number]) is ErrorCode.DUPLICATE_VOTER:
            # DescribeQuorum may leave out an old voter that the leader has not heard from since it lost its disk.
            await self._remove(session, (number, self._former[number]))
            self._former[number] = seats[number]

    async def _remove(self, session: Session, voter: tuple[int, DirectoryId]) -> None:
        number, directory = voter
        connection = await session.controller(controller_endpoint(self._leader))
        answer = await connection.ask(
            RemoveRaftVoterRequest(cluster_id=None, voter_id=number, voter_directory_id=directory),
            0,
            RemoveRaftVoterResponse,
            _PATIENCE_S,
        )
        self._heed(answer.error_code, f"the removal of voter {number}")

    async def _add(self, session: Session, number: int, directory: DirectoryId) -> ErrorCode:
        host, port = controller_endpoint(number)
        connection = await session.controller(controller_endpoint(self._leader))
        answer = await connection.ask(
            AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=5000,
                voter_id=number,
                voter_directory_id=directory,
                listeners=[Listener(name="CONTROLLER", host=host, port=port)],
            ),
            1,
            AddRaftVoterResponse,
            _PATIENCE_S,
        )
        self._heed(answer.error_code, f"the addition of voter {number}")
        return ErrorCode(answer.error_code)

    def _heed(self, code: int, what: str) -> None:
        self.errand.note(f"{what}: {ErrorCode(code).name}")
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT):
            raise AskAgain(ErrorCode(code).name)
        if code not in _DONE:
            refuse(self.name, code, what)
