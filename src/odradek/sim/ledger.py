"""What was committed, as first seen: the same everywhere and for ever."""

from __future__ import annotations

from odradek.log.log import Log
from odradek.sim.history import Violation
from odradek.sim.loop import Host
from odradek.sim.records import whole_batches

_READ_BYTES = 1 << 20


class Ledger:
    """Of one log that exists on several nodes. Kept batch by batch; each node is read on from where it was left."""

    def __init__(self, promise: str, name: str) -> None:
        self._promise = promise
        self._name = name
        # Last offset, checksum and leader epoch, by base offset.
        self._batches: dict[int, tuple[int, int, int]] = {}
        self._read_to: dict[Host, int] = {}
        self.end = 0

    def compare(self, host: Host, log: Log, high_watermark: int) -> None:
        """What a node takes for committed must be what the others do."""
        position = max(self._read_to.get(host, 0), log.log_start_offset)
        while position < high_watermark:
            region = log.read(position, _READ_BYTES, high_watermark, whole_first_batch=True)
            if region is None:
                break
            data = region.read()
            region.release()
            for batch in whole_batches(data):
                if batch.last_offset >= position:
                    self._compare_batch(host, batch.base_offset, (batch.last_offset, batch.crc, batch.leader_epoch))
                    position = batch.last_offset + 1
        self._read_to[host] = position
        self.end = max(self.end, position)

    def _compare_batch(self, host: Host, base_offset: int, found: tuple[int, int, int]) -> None:
        known = self._batches.setdefault(base_offset, found)
        if known != found:
            raise Violation(
                f"{self._promise} {self._name} at {base_offset}: {host.name} has {found}, and {known} was committed "
                "(last offset, checksum, leader epoch)"
            )
