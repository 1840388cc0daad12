"""Producer ids for clients, out of a block that the metadata log has given to this broker.

The rest of a block is lost when the process ends; the ids are 63 bits wide.
"""

from __future__ import annotations

import asyncio

from odradek.base.errors import KafkaError, error_code
from odradek.base.ids import BrokerId, ProducerId
from odradek.protocol.messages.p67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.server.controller.controller_channel import ControllerChannel

REQUEST_TIMEOUT_MS = 10_000


class ProducerIds:
    def __init__(self, channel: ControllerChannel, broker_id: BrokerId, broker_epoch: int) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._block = iter(range(0))
        self._refilling = asyncio.Lock()

    async def next_id(self) -> ProducerId:
        async with self._refilling:
            following = next(self._block, None)
            if following is None:
                self._block = iter(await self._new_block())
                following = next(self._block)
            return ProducerId(following)

    async def _new_block(self) -> range:
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch)
        block = await self._channel.ask(request, AllocateProducerIdsResponse, timeout_ms=REQUEST_TIMEOUT_MS)
        if block.error_code:
            raise KafkaError(error_code(block.error_code))
        return range(block.producer_id_start, block.producer_id_start + block.producer_id_len)
