"""Sends the ISR changes that partition leaders propose to the active controller, one request at a time.

Proposals made while a request is under way go into the next. Each proposal is answered once. If it was accepted, the
partition gets the new ISR with the image. If not, the partition gets the reason and may propose something else.
"""

from __future__ import annotations

import asyncio

from odradek.base.errors import ErrorCode, KafkaError, error_code
from odradek.base.ids import BrokerId
from odradek.base.ports import Clock, Spawner
from odradek.protocol.messages.p56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from odradek.replication.isr import IsrProposal
from odradek.replication.partition import Partition
from odradek.server.controller.controller_channel import ControllerChannel
from odradek.server.tally import Tally

REQUEST_TIMEOUT_MS = 30_000
RETRY_PAUSE_MS = 50


class IsrProposals:
    def __init__(
        self, *, channel: ControllerChannel, broker_id: BrokerId, clock: Clock, spawner: Spawner, tally: Tally
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        # Known once the broker is registered; it leads nothing before.
        self.broker_epoch = -1
        self._clock = clock
        self._spawner = spawner
        self._tally = tally
        self._waiting: dict[Partition, IsrProposal] = {}
        self._asking: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        self._waiting[partition] = proposal
        if self._asking is None:
            self._asking = self._spawner.spawn("ISR proposals", self._ask_all())

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask_all(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, {}
                await self._ask(asked)
        finally:
            self._asking = None

    async def _ask(self, asked: dict[Partition, IsrProposal]) -> None:
        request = self._request(asked)
        try:
            response = await self._channel.ask(request, AlterPartitionResponse, timeout_ms=REQUEST_TIMEOUT_MS)
            failure = error_code(response.error_code)
        except KafkaError as lost:
            response, failure = AlterPartitionResponse(), lost.code
        answers = {
            (topic.topic_id, each.partition_index): each for topic in response.topics for each in topic.partitions
        }
        again = [
            (partition, proposal)
            for partition, proposal in asked.items()
            if self._answer(partition, proposal, answers.get((proposal.topic_id, proposal.partition)), failure)
        ]
        if again:
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
            for partition, proposal in again:
                # The partition may have proposed something else meanwhile.
                self._waiting.setdefault(partition, proposal)

    def _answer(
        self,
        partition: Partition,
        proposal: IsrProposal,
        answer: AlterPartitionResponsePartitionData | None,
        failure: ErrorCode,
    ) -> bool:
        """Whether to retry."""
        now_ms = self._clock.monotonic_ms()
        code = failure if answer is None else error_code(answer.error_code)
        if answer is None or code is not ErrorCode.NONE:
            self._tally.isr_failures.count += 1
            return partition.isr_refused(proposal, code or ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)
        grows = proposal.grows
        (self._tally.isr_expands if grows else self._tally.isr_shrinks).count += 1
        partition.isr_accepted(proposal, answer.partition_epoch, now_ms)
        return False

    def _request(self, asked: dict[Partition, IsrProposal]) -> AlterPartitionRequest:
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        for proposal in asked.values():
            topic = topics.setdefault(proposal.topic_id, AlterPartitionRequestTopicData(topic_id=proposal.topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=proposal.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
                        for member in proposal.isr
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self.broker_epoch, topics=list(topics.values())
        )
