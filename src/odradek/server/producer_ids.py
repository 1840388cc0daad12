"""Producer ids for clients, out of a block that the metadata log has given to this broker.

The rest of a block is lost when the process ends; the ids are 63 bits wide.
"""

from __future__ import annotations

import asyncio

from odradek.base.ids import BrokerId, ProducerId
from odradek.controller.producer_ids import allocate_producer_ids
from odradek.server.active_controller import ActiveController


class ProducerIds:
    def __init__(self, controller: ActiveController, broker_id: BrokerId, broker_epoch: int) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._block = iter(range(0))
        self._refilling = asyncio.Lock()

    async def next_id(self) -> ProducerId:
        async with self._refilling:
            following = next(self._block, None)
            if following is None:
                block = await self._controller.submit(
                    lambda image: allocate_producer_ids(image, self._broker_id, self._broker_epoch)
                )
                self._block = iter(block)
                following = next(self._block)
            return ProducerId(following)
