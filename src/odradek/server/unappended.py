"""Batches whose records must be read before the append, which takes too long for the event loop.

A compacted topic checks for keys, one with `compression.type` recompresses. Each partition has a queue: its batches are
appended in the order in which they came, and a batch that needs no check waits behind earlier ones that do. A queued
batch is appended even when its client has left: with acks=0 a client may leave as soon as it has sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.invariants import InvariantBroken
from odradek.base.ports import Clock, Spawner
from odradek.log.appended import Appended
from odradek.log.config import LogConfig
from odradek.log.recompression import ready_to_append
from odradek.log.verification import Verification
from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)

Told = Callable[[Appended | KafkaError], None]


def _nobody(_: Appended | KafkaError) -> None: ...


class TooMuchQueued(KafkaError):
    """The client must send the batch again, and everything that it has sent after it."""


class Arrival:
    __slots__ = ("acks", "batch", "told", "verification")

    def __init__(self, batch: bytearray, acks: int, verification: Verification | None) -> None:
        self.batch = batch
        self.acks = acks
        self.verification = verification
        # Called once it is appended or refused, not before the next turn of the event loop.
        self.told: Told = _nobody


class Unappended:
    def __init__(self, clock: Clock, spawner: Spawner) -> None:
        self._clock = clock
        self._spawner = spawner
        # `Partition.unappended` is the length of its queue.
        self._queues: dict[Partition, deque[Arrival]] = {}
        self._bytes = 0
        self._places = asyncio.Semaphore(limits.checked_batches_at_once_max)
        self._empty = asyncio.Event()
        self._stopped = False

    async def stop(self) -> None:
        """Append what is queued, within the time that connections get to close. Nothing is appended after this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.connection_close_grace_ms / 1000):
                while self._queues:
                    self._empty.clear()
                    await self._empty.wait()
        self._stopped = True

    def add(
        self, partition: Partition, batch: memoryview, acks: int, verification: Verification | None = None
    ) -> Arrival:
        """Copies `batch`. Raises TooMuchQueued, whatever its size: a smaller batch must not overtake a larger one."""
        if self._bytes >= limits.unappended_bytes_max:
            raise TooMuchQueued(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._bytes} bytes already wait to be recompressed or checked for keys: send the batch again",
            )
        self._bytes += len(batch)
        partition.unappended += 1
        arrival = Arrival(bytearray(batch), acks, verification)
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
            if isinstance(outcome, KafkaError) and partition.traffic is not None:
                partition.traffic.refused(arrival.batch, outcome)
            queue.popleft()
            self._bytes -= len(arrival.batch)
            partition.unappended -= 1
            arrival.told(outcome)
        del self._queues[partition]
        if not self._queues:
            self._empty.set()

    async def _append(self, partition: Partition, arrival: Arrival) -> Appended | KafkaError:
        try:
            async with self._places:
                batch = await self._spawner.blocking(_ready, arrival.batch, partition.log.config)
            if isinstance(batch, KafkaError):
                return batch
            if self._stopped:
                return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker is stopping")
            return partition.append(memoryview(batch), arrival.acks, self._clock.wall_ms(), arrival.verification)
        except KafkaError as refusal:
            return refusal
        except InvariantBroken:
            raise
        except OSError as broken:  # raised before the log wrote anything
            logger.warning("%s cannot be written to: %s", partition, broken)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        except Exception:
            # A bug, or too little memory. It costs this batch, not the node and the batches behind it.
            logger.exception("a batch for %s could not be recompressed or checked for keys", partition)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker could not read the batch; its log says why")


def _ready(batch: bytearray, config: LogConfig) -> bytearray | KafkaError:
    """Slow. A refusal is returned without its traceback.

    A traceback would keep the decompressed records, up to 100 MiB, until cycles are collected: a few decompression
    bombs in a row once took all memory.
    """
    try:
        return ready_to_append(batch, config)
    except KafkaError as refusal:
        refusal.__cause__ = refusal.__context__ = None
        return refusal.with_traceback(None)
