"""Batches whose records must be read before the append, which takes too long for the event loop.

A topic that is compacted looks for keys, one with `compression.type` recompresses. Each partition has a queue: its
batches are appended in the order in which they came, and a batch that needs no look waits behind those that do. What is
in a queue is appended even when its client has left: with acks=0 a client may leave as soon as it has sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Spawner
from odradek.log.appended import Appended
from odradek.log.config import LogConfig
from odradek.log.recompression import recompressed
from odradek.log.validation import require_keys
from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)

Told = Callable[[Appended | KafkaError], None]


def _nobody(_: Appended | KafkaError) -> None: ...


class Arrival:
    __slots__ = ("acks", "batch", "leader_epoch", "told")

    def __init__(self, batch: bytearray, acks: int, leader_epoch: int) -> None:
        self.batch = batch
        self.acks = acks
        # Of the partition when the batch came.
        self.leader_epoch = leader_epoch
        # Is called once it is appended or refused, not before the next turn of the event loop.
        self.told: Told = _nobody


class Unappended:
    def __init__(self, clock: Clock, spawner: Spawner) -> None:
        self._clock = clock
        self._spawner = spawner
        # `Partition.unappended` is the length of its queue.
        self._queues: dict[Partition, deque[Arrival]] = {}
        self._bytes = 0
        self._places = asyncio.Semaphore(limits.checked_batches_at_once_max)

    def add(self, partition: Partition, batch: memoryview, acks: int) -> Arrival:
        """Copies `batch`. Raises KafkaError when too much waits already; the client sends it again."""
        if self._bytes + len(batch) > limits.unappended_bytes_max:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._bytes} bytes wait to be recompressed or checked for keys already: send the batch again",
            )
        self._bytes += len(batch)
        partition.unappended += 1
        arrival = Arrival(bytearray(batch), acks, partition.leader_epoch)
        if partition in self._queues:
            self._queues[partition].append(arrival)
        else:
            self._queues[partition] = deque([arrival])
            self._spawner.spawn(f"look into batches for {partition}", self._append_in_order(partition))
        return arrival

    async def _append_in_order(self, partition: Partition) -> None:
        queue = self._queues[partition]
        while queue:
            arrival = queue[0]
            outcome = await self._append(partition, arrival)
            queue.popleft()
            self._bytes -= len(arrival.batch)
            partition.unappended -= 1
            arrival.told(outcome)
        del self._queues[partition]

    async def _append(self, partition: Partition, arrival: Arrival) -> Appended | KafkaError:
        try:
            async with self._places:
                batch = await self._spawner.blocking(_ready, arrival.batch, partition.log.config)
            if isinstance(batch, KafkaError):
                return batch
            if partition.leader_epoch != arrival.leader_epoch:
                # Elected again, perhaps. The client looks for the leader and sends what was not acknowledged.
                return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} had an election meanwhile")
            return partition.append(memoryview(batch), arrival.acks, self._clock.wall_ms())
        except KafkaError as refusal:
            return refusal
        except OSError as broken:  # what was asked of the log before it wrote anything
            logger.warning("%s cannot be written to: %s", partition, broken)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


def _ready(batch: bytearray, config: LogConfig) -> bytearray | KafkaError:
    """Slow. A refusal is returned without its traceback.

    That would hold on to what was unpacked, up to 100 MiB, until cycles are collected: some bombs in a row once took
    all memory.
    """
    try:
        if config.compacts:
            require_keys(batch)
        return recompressed(batch, config)
    except KafkaError as refusal:
        refusal.__cause__ = refusal.__context__ = None
        return refusal.with_traceback(None)
