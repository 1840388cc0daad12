"""What a leader knows of its followers: their progress, whom a commit waits for, who joins or leaves the ISR.

There is one ISR proposal at a time. While it is in flight, the high watermark waits for the committed ISR and for the
replicas that the proposal adds. It waits for a removed replica until the image says that the replica has left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId
from odradek.replication import safeguards
from odradek.replication.followers import UNKNOWN, Follower
from odradek.replication.isr import NOT_APPLIED, OUT_OF_DATE, IsrMember, IsrProposal, LiveBrokers

if TYPE_CHECKING:
    from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)


class Leading:
    """One leader epoch of a partition that has more than one replica."""

    __slots__ = ("_awaited", "_brokers", "_epoch_start_offset", "_followers", "_lag_ms_max", "_partition", "proposal")

    def __init__(self, partition: Partition, *, brokers: LiveBrokers, lag_ms_max: int, now_ms: int) -> None:
        self._partition = partition
        self._brokers = brokers
        self._lag_ms_max = lag_ms_max
        self._epoch_start_offset = partition.log.log_end_offset
        self._followers: dict[int, Follower] = {}
        # The followers that must have a record before it is committed.
        self._awaited: list[Follower] = []
        self.proposal: IsrProposal | None = None
        self.assigned(now_ms)

    # The image, the clock

    def assigned(self, now_ms: int) -> None:
        """The replicas or the committed ISR may have changed."""
        known = self._followers
        self._followers = {}
        for broker_id in self._partition.replicas:
            if broker_id == self._partition.broker_id:
                continue
            follower = known.get(broker_id)
            if follower is None:
                follower = Follower(broker_id)
                if broker_id in self._partition.isr:
                    follower.caught_up_ms = now_ms
            self._followers[broker_id] = follower
        self._await_followers(now_ms)

    def brokers_changed(self, now_ms: int) -> None:
        """A follower outside the ISR holds back the high watermark only while it is eligible to join."""
        self._await_followers(now_ms)

    def tick(self, now_ms: int) -> IsrProposal | None:
        """Called periodically: propose to remove lagging followers from the ISR."""
        self._await_followers(now_ms)
        if self.proposal is not None:
            return None
        partition = self._partition
        end = partition.log.log_end_offset
        lagging = [
            follower
            for follower in self._followers.values()
            if follower.broker_id in partition.isr and follower.lags(end, now_ms, self._lag_ms_max)
        ]
        if not lagging:
            return None
        gone = {follower.broker_id: None for follower in lagging}
        for follower in lagging:
            logger.info(
                "%s: removing broker %d from the ISR %s: it is at offset %d of %d and has not caught up for %d ms",
                *(partition, follower.broker_id, partition.isr, follower.log_end_offset, end, self._lag_ms_max),
            )
        return self._propose((member for member in partition.isr if member not in gone), now_ms)

    # Fetches of followers

    def follower(self, broker_id: int) -> Follower | None:
        return self._followers.get(broker_id)

    def is_outdated(self, broker_id: int, broker_epoch: int) -> bool:
        return self._brokers.is_outdated(broker_id, broker_epoch)

    def fetched(
        self, follower: Follower, offset: int, *, log_start_offset: int, broker_epoch: int, now_ms: int
    ) -> IsrProposal | None:
        """A follower has all records before `offset`. Propose to add it to the ISR if it qualifies now."""
        partition = self._partition
        follower.fetched(
            offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=partition.log.log_end_offset,
            now_ms=now_ms,
        )
        if follower.broker_id in partition.isr:
            return None
        if self.proposal is None and self._may_join(follower):
            logger.info(
                "%s: adding broker %d to the ISR %s: it is at offset %d",
                *(partition, follower.broker_id, partition.isr, offset),
            )
            return self._propose((*partition.isr, follower.broker_id), now_ms)
        self._await_followers(now_ms)
        return None

    def nearest(self, rack: str, offset: int) -> BrokerId | None:
        """The replica a consumer in that rack should read from (KIP-392): in sync, in the rack, most caught up."""
        partition = self._partition
        if self._brokers.rack(partition.broker_id) == rack:
            return None
        there = [
            follower
            for follower in self._followers.values()
            if follower.broker_id in partition.isr
            and follower.log_start_offset <= offset <= follower.log_end_offset
            and self._brokers.rack(follower.broker_id) == rack
        ]
        if not there:
            return None
        return max(there, key=lambda follower: (follower.log_end_offset, follower.caught_up_ms)).broker_id

    # Replies of the controller

    def committed(self, now_ms: int) -> None:
        """The proposal was applied, or a newer image has replaced it."""
        self.proposal = None
        self.assigned(now_ms)

    def refused(self, code: ErrorCode, now_ms: int) -> bool:
        """True: retry the same proposal."""
        if code in NOT_APPLIED:
            self.proposal = None
            self._await_followers(now_ms)
            return False
        return code not in OUT_OF_DATE

    def low_watermark(self, own_start: int) -> int:
        """No replica that is alive or eligible to lead has a record below it."""
        elr = self._partition.elr
        starts = [
            follower.log_start_offset
            for follower in self._followers.values()
            if safeguards.has_to_delete(self._brokers.is_alive(follower.broker_id), follower.broker_id in elr)
        ]
        return min([own_start, *starts])

    # The high watermark

    def committed_end(self, own_end: int) -> int:
        """The end of the records that all awaited followers have."""
        partition = self._partition
        if not safeguards.commits_with(len(partition.isr), partition.min_isr):
            return UNKNOWN
        for follower in self._awaited:
            if follower.log_end_offset < own_end:
                own_end = follower.log_end_offset
        return own_end

    def _await_followers(self, now_ms: int) -> None:
        """Wait for the maximal ISR, and for followers that keep up and are eligible for the ISR.

        Otherwise, under steady load, such a follower would always be behind the high watermark and never join.
        """
        proposed = () if self.proposal is None else self.proposal.members
        members = safeguards.maximal_isr(self._partition.isr, proposed)
        self._awaited = [
            follower
            for follower in self._followers.values()
            if follower.broker_id in members
            or (follower.was_caught_up(now_ms, self._lag_ms_max) and self._is_eligible(follower))
        ]

    def _may_join(self, follower: Follower) -> bool:
        partition = self._partition
        return (
            self._is_eligible(follower)
            and safeguards.is_in_sync(follower.log_end_offset, partition.high_watermark, self._epoch_start_offset)
            and safeguards.has_deleted_as_much(follower.log_start_offset, partition.log.log_start_offset)
        )

    def _is_eligible(self, follower: Follower) -> bool:
        image = self._partition.image
        if image is not None and image.is_lost(follower.broker_id):
            return False  # a replica that the controller will not elect must not be the only one with committed data
        return self._brokers.may_join_isr(follower.broker_id, follower.broker_epoch)

    def _propose(self, members: Iterable[BrokerId], now_ms: int) -> IsrProposal:
        partition = self._partition
        isr = tuple(IsrMember(member, self._broker_epoch(member)) for member in members)
        self.proposal = IsrProposal(
            topic_id=partition.topic_id,
            partition=partition.index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=isr,
            grows=len(isr) > len(partition.isr),
        )
        self._await_followers(now_ms)
        return self.proposal

    def _broker_epoch(self, member: BrokerId) -> int:
        follower = self._followers.get(member)
        return self._brokers.broker_epoch(member) if follower is None else follower.broker_epoch
