"""What a leader knows of its followers: who holds what, whom the high watermark waits for, who joins or leaves the ISR.

There is one proposal at a time. While it is under way, the high watermark waits for the committed ISR and for whoever
the proposal adds; one it removes is waited for until the image says that it has left.
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
        # Those that must have a record before it is committed.
        self._awaited: list[Follower] = []
        self.proposal: IsrProposal | None = None
        self.assigned(now_ms)

    # The image, the clock

    def assigned(self, now_ms: int) -> None:
        """Replicas or the committed ISR are what they are now."""
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
        """Who may join the ISR is waited for, who may not any more is not."""
        self._await_followers(now_ms)

    def tick(self, now_ms: int) -> IsrProposal | None:
        """From time to time: who has not kept up leaves the ISR."""
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
                "%s: %d is to leave the ISR %s, it has %d of %d and has not caught up for %d ms",
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
        """A follower has everything before `offset`, the same as here. Perhaps it joins the ISR now."""
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
            logger.info("%s: %d is to join the ISR %s, it has %d", partition, follower.broker_id, partition.isr, offset)
            return self._propose((*partition.isr, follower.broker_id), now_ms)
        self._await_followers(now_ms)
        return None

    def nearest(self, rack: str, offset: int) -> BrokerId | None:
        """Whom a consumer in that rack had better read from (KIP-392): in sync, there, and most caught up."""
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

    # The controller's answers

    def committed(self, now_ms: int) -> None:
        """The proposal was applied, or the image has overtaken it."""
        self.proposal = None
        self.assigned(now_ms)

    def refused(self, code: ErrorCode, now_ms: int) -> bool:
        """Whether to send the same proposal again."""
        if code in NOT_APPLIED:
            self.proposal = None
            self._await_followers(now_ms)
            return False
        return code not in OUT_OF_DATE

    def low_watermark(self, own_start: int) -> int:
        """Below it no replica has anything any more that is alive, or may lead once it is."""
        elr = self._partition.elr
        starts = [
            follower.log_start_offset
            for follower in self._followers.values()
            if safeguards.has_to_delete(self._brokers.is_alive(follower.broker_id), follower.broker_id in elr)
        ]
        return min([own_start, *starts])

    # The high watermark

    def committed_end(self, own_end: int) -> int:
        """Up to where all who must have a record have it."""
        partition = self._partition
        if not safeguards.commits_with(len(partition.isr), partition.min_isr):
            return UNKNOWN
        for follower in self._awaited:
            if follower.log_end_offset < own_end:
                own_end = follower.log_end_offset
        return own_end

    def _await_followers(self, now_ms: int) -> None:
        """Besides the maximal ISR also whoever keeps up and may join.

        Otherwise, under steady load, it would be behind the high watermark of a leader alone for ever.
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
            return False  # whom nobody would elect must not be the one that knows everything
        return self._brokers.may_join_isr(follower.broker_id, follower.broker_epoch)

    def _propose(self, members: Iterable[BrokerId], now_ms: int) -> IsrProposal:
        partition = self._partition
        self.proposal = IsrProposal(
            topic_id=partition.topic_id,
            partition=partition.index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=tuple(IsrMember(member, self._broker_epoch(member)) for member in members),
        )
        self._await_followers(now_ms)
        return self.proposal

    def _broker_epoch(self, member: BrokerId) -> int:
        follower = self._followers.get(member)
        return self._brokers.broker_epoch(member) if follower is None else follower.broker_epoch
