"""The end of one producer's transaction in one partition, as WriteTxnMarkers asks for it."""

from __future__ import annotations

from typing import NamedTuple


class TxnMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    # The leader epoch of the transaction coordinator's partition: an older coordinator is fenced.
    coordinator_epoch: int
    committed: bool
    # From 2 on, the epoch of the marker is newer than the epoch of the transaction's records (KIP-890).
    transaction_version: int = 0
