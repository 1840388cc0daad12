"""The transactional batches of a Produce request: their coordinator confirms them before they are appended.

Only the first batch of a transaction in a partition needs that. The request waits as a copy, and its connection with
it: later batches of the producer stay behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ProducerId, TopicPartition
from odradek.base.invariants import InvariantBroken
from odradek.coordinator.transaction.transaction import ProducerIdentity
from odradek.log.verification import NOT_REQUIRED, OPEN_HERE, Verification
from odradek.protocol.batch import HEADER_BYTES, BatchHeader, read_header
from odradek.protocol.malformed import MalformedRecords
from odradek.replication.partition import Partition
from odradek.server.network.request import BrokerContext, Parts, ReplySlot

logger = logging.getLogger(__name__)

KNOWS_ABORTABLE = 11
JOINS = 12


class Verified(NamedTuple):
    """By partition: what its append needs, or why its batch is refused."""

    verifications: Mapping[Partition, Verification]
    refusals: Mapping[Partition, KafkaError]

    def of(self, partition: Partition, batch: memoryview) -> Verification | None:
        """None for a batch outside of transactions."""
        if partition in self.refusals:
            raise self.refusals[partition]
        verification = self.verifications.get(partition)
        if verification is None and (header := _header(batch)) is not None and _needs_verification(header):
            # A failed log was opened again while the coordinator was asked: what was verified belongs to the old one.
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{partition} came online meanwhile: send the batch again")
        return verification


NOTHING = Verified({}, {})
Produce = Callable[[Verified, ReplySlot], Parts | None]


class Unverified(NamedTuple):
    producer: ProducerIdentity
    partition: Partition


def verified_here(
    ctx: BrokerContext, batches: Iterable[tuple[Partition, memoryview | None]]
) -> tuple[Verified, list[Unverified]]:
    """What this broker knows by itself, and what it must ask."""
    verifications: dict[Partition, Verification] = {}
    refusals: dict[Partition, KafkaError] = {}
    unverified: list[Unverified] = []
    for partition, batch in batches:
        header = _header(batch)
        if header is None or not _needs_verification(header):
            continue
        try:
            verification = _begin(ctx, partition, header)
        except KafkaError as refusal:
            refusals[partition] = refusal
            continue
        verifications[partition] = verification
        if verification not in (OPEN_HERE, NOT_REQUIRED):
            producer = ProducerIdentity(ProducerId(header.producer_id), header.producer_epoch)
            unverified.append(Unverified(producer, partition))
    return Verified(verifications, refusals), unverified


def _header(batch: memoryview | None) -> BatchHeader | None:
    """None if the append refuses it anyway."""
    if batch is None or len(batch) < HEADER_BYTES:
        return None
    try:
        return read_header(batch)
    except MalformedRecords:
        return None


def _needs_verification(header: BatchHeader) -> bool:
    return header.is_transactional and header.producer_id >= 0


def _begin(ctx: BrokerContext, partition: Partition, header: BatchHeader) -> Verification:
    joins = ctx.version >= JOINS
    if not joins and not ctx.broker.config.transaction_partition_verification_enable:
        return NOT_REQUIRED
    return partition.begin_verification(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        adds_partition=joins,
        wall_ms=ctx.broker.clock.wall_ms(),
    )


class UnverifiedProduce:
    """A request that waits for the coordinator of its transaction."""

    __slots__ = ("_ctx", "_is_lost", "_produce", "_size", "_slot", "_transactional_id", "_unverified", "_verified")

    def __init__(
        self,
        ctx: BrokerContext,
        transactional_id: str,
        verified: Verified,
        unverified: list[Unverified],
        size: int,
        produce: Produce,
    ) -> None:
        """`size`: the bytes of its copy. `produce` is called with the outcome."""
        self._ctx = ctx
        self._transactional_id = transactional_id
        self._verified = verified
        self._unverified = unverified
        self._size = size
        self._produce = produce
        self._is_lost = False
        asked = ctx.broker.transaction_partitions
        if asked.waiting_bytes >= limits.unverified_bytes_max:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{asked.waiting_bytes} bytes already wait for transaction coordinators: send the batch again",
            )
        asked.waiting_bytes += size
        self._slot: ReplySlot = ctx.connection.park(stop_reading=True, on_lost=self._lose)
        ctx.broker.spawner.spawn("verify a produced batch", self._run())

    def _lose(self) -> None:
        self._is_lost = True

    async def _run(self) -> None:
        try:
            refusals = await self._ask()
            if self._is_lost:
                return
            all_refusals = {**self._verified.refusals, **refusals}
            parts = self._produce(Verified(self._verified.verifications, all_refusals), self._slot)
        except InvariantBroken:
            raise
        except Exception:
            logger.exception("a transactional batch of %s could not be handled", self._ctx.client_host)
            self._ctx.note_error(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._ctx.connection.end("Produce failed")
            parts = []
        finally:
            self._ctx.broker.transaction_partitions.waiting_bytes -= self._size
        if parts is not None:
            self._slot.fill(parts)

    async def _ask(self) -> dict[Partition, KafkaError]:
        ctx = self._ctx
        asked = ctx.broker.transaction_partitions
        ask = asked.join if ctx.version >= JOINS else asked.verify
        by_producer: dict[ProducerIdentity, dict[TopicPartition, Partition]] = {}
        for producer, partition in self._unverified:
            key = TopicPartition(partition.topic, partition.index)
            by_producer.setdefault(producer, {})[key] = partition
        refusals: dict[Partition, KafkaError] = {}
        for producer, partitions in by_producer.items():
            codes = await ask(self._transactional_id, producer, partitions)
            for key, partition in partitions.items():
                if codes[key]:
                    refusals[partition] = _refusal(ctx, codes[key])
        return refusals


def _refusal(ctx: BrokerContext, code: ErrorCode) -> KafkaError:
    why = f"the transaction coordinator answered {code.name}"
    match code:
        case ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if ctx.version < KNOWS_ABORTABLE:
            code = ErrorCode.INVALID_TXN_STATE
        case (
            ErrorCode.NETWORK_EXCEPTION
            | ErrorCode.NOT_COORDINATOR
            | ErrorCode.COORDINATOR_NOT_AVAILABLE
            | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            # Another partition of the request is unknown to the coordinator, which may learn of it later.
            | ErrorCode.OPERATION_NOT_ATTEMPTED
        ):
            # Every producer retries this code, without refreshing its metadata.
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        case ErrorCode.CONCURRENT_TRANSACTIONS if ctx.version < JOINS:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
    return KafkaError(code, why)
