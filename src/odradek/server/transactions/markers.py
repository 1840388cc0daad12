"""Gathers the markers that the transaction coordinators of this broker send: one request at a time to each leader."""

from __future__ import annotations

from odradek.base.ids import BrokerId
from odradek.base.ports import Spawner
from odradek.coordinator.ports import AskBroker
from odradek.coordinator.transaction.shard import MARKERS_TIMEOUT_MS, WRITE_TXN_MARKERS_VERSION
from odradek.protocol.messages.p27_write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest
from odradek.protocol.schema import Message
from odradek.server.transactions.gathering import Gathering


class MarkerGathering:
    def __init__(self, ask_broker: AskBroker, spawner: Spawner) -> None:
        self._ask_broker = ask_broker
        self._gathering: Gathering[WritableTxnMarker] = Gathering(
            ask_broker=ask_broker,
            spawner=spawner,
            request=lambda markers: WriteTxnMarkersRequest(markers=markers),
            version=WRITE_TXN_MARKERS_VERSION,
            timeout_ms=MARKERS_TIMEOUT_MS,
        )

    async def ask(self, broker_id: BrokerId, request: Message, version: int, timeout_ms: int) -> Message | None:
        """An `AskBroker`. An answer also has the markers of other coordinators: each finds its own by producer id."""
        if not isinstance(request, WriteTxnMarkersRequest):
            return await self._ask_broker(broker_id, request, version, timeout_ms)
        return (await self._gathering.ask(broker_id, request.markers)).answer
