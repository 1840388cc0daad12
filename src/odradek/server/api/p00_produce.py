"""Produce 3-13: append one batch to each of some partitions.

Advertised from 0, since older librdkafka stops compressing when it is not (KAFKA-18659), but 0-2 are not served. 3-6
know no zstd. 8 adds error messages. 9 is flexible. 13 names topics by id.

acks=0 is never answered; an error then costs the connection, so that the client looks for the leader again. acks=1 is
answered once this replica has the batch as durably as its topic asks for, acks=all once it is committed. What a client
sends twice for one partition in a request is appended twice, in order.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.appended import RecordsRefused
from odradek.log.validation import is_slow_to_look_into, require_keys
from odradek.protocol.batch import CODEC_MASK
from odradek.protocol.compression import Codec
from odradek.protocol.produce import (
    ProduceOutcome,
    ProduceRequest,
    decode_produce_request,
    encode_produce_response,
)
from odradek.replication.partition import ACKS_ALL, Partition
from odradek.replication.partition_table import HostedTopic
from odradek.replication.waiting import Callback
from odradek.security.authorizer import Operation
from odradek.server.request import FrameApi, Parts, ReplySlot, RequestContext
from odradek.server.topic_lookup import find_topic, missing_partition
from odradek.server.visible_cluster import is_internal

logger = logging.getLogger(__name__)

ACKS_NONE, ACKS_LEADER = 0, 1
ACKS = (ACKS_ALL, ACKS_NONE, ACKS_LEADER)
ZSTD = int(Codec.ZSTD)
WRITE = Operation.WRITE
FIRST_WITH_ZSTD = 7
_ATTRIBUTES_LOW_BYTE = 22
NO_TRANSACTIONS = "this broker has no transactions yet: produce without a transactional.id"

Answers = list[tuple[str | bytes, list[ProduceOutcome]]]


class Wait(NamedTuple):
    """A batch that may not be acknowledged yet."""

    partition: Partition
    last_offset: int
    outcome: ProduceOutcome


class Unread(NamedTuple):
    """A batch that must be looked into before it is appended, which takes too long for the event loop."""

    partition: Partition
    batch: bytearray
    outcome: ProduceOutcome


def handle(ctx: RequestContext, frame: memoryview, position: int, end: int) -> Parts | None:
    request = decode_produce_request(frame, ctx.version, position, end)
    acks = request.acks
    refusal = _refusal(request) if request.transactional_id is not None or acks not in ACKS else None
    wall_ms = ctx.broker.clock.wall_ms()
    waits: list[Wait | Unread] = []
    answers: Answers = []
    for topic, batches in request.topics:
        hosted = refusal or _writable_topic(ctx, topic)
        if isinstance(hosted, HostedTopic):
            outcomes = [_append(ctx, hosted, index, batch, acks, wall_ms, waits) for index, batch in batches]
        else:
            outcomes = [_failed(index, hosted) for index, _ in batches]
        answers.append((topic, outcomes))
    if waits:
        ParkedProduce(ctx, request, answers, waits)
        return None
    if acks == ACKS_NONE:
        return _unanswered(ctx, answers)
    return [encode_produce_response(ctx.version, ctx.correlation_id, answers)]


def _refusal(request: ProduceRequest) -> KafkaError:
    if request.transactional_id is not None:
        return KafkaError(ErrorCode.INVALID_REQUEST, NO_TRANSACTIONS)
    return KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}, not -1, 0 or 1")


def _writable_topic(ctx: RequestContext, topic: str | bytes) -> HostedTopic | KafkaError:
    hosted = find_topic(ctx, topic, WRITE)
    if isinstance(hosted, HostedTopic) and is_internal(hosted.name):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{hosted.name} is written by the broker alone")
    return hosted


def _failed(index: int, refusal: KafkaError) -> ProduceOutcome:
    records = refusal.records if isinstance(refusal, RecordsRefused) else ()
    return ProduceOutcome(index, refusal.code, error_message=refusal.message or None, record_errors=records)


def _append(
    ctx: RequestContext,
    hosted: HostedTopic,
    index: int,
    batch: memoryview | None,
    acks: int,
    wall_ms: int,
    waits: list[Wait | Unread],
) -> ProduceOutcome:
    partition = hosted.partitions.get(index)
    if partition is None:
        return ProduceOutcome(index, missing_partition(ctx, hosted, index))
    if not batch:
        return ProduceOutcome(index, ErrorCode.INVALID_RECORD, error_message="no record batch")
    try:
        if ctx.version < FIRST_WITH_ZSTD:
            _refuse_zstd(batch)
        # What is too large is not worth a copy and a look: `append` refuses it.
        if partition.log.config.compacts and len(batch) <= partition.log.config.max_message_bytes:
            if is_slow_to_look_into(batch) or _is_unread(partition, waits):
                outcome = ProduceOutcome(index)
                waits.append(Unread(partition, bytearray(batch), outcome))
                return outcome
            require_keys(batch)
        base_offset, last_offset, append_time_ms, log_start_offset, _, _ = partition.append(batch, acks, wall_ms)
    except KafkaError as refusal:
        return _failed(index, refusal)
    except OSError as broken:  # what was asked of the log before it wrote anything
        logger.warning("%s cannot be written to: %s", partition, broken)
        return ProduceOutcome(index, ErrorCode.KAFKA_STORAGE_ERROR)
    outcome = ProduceOutcome(index, 0, base_offset, append_time_ms, log_start_offset)
    if acks and not _is_acknowledged(partition, last_offset, acks):
        waits.append(Wait(partition, last_offset, outcome))
    return outcome


def _is_unread(partition: Partition, waits: list[Wait | Unread]) -> bool:
    """An earlier batch of this request is not appended yet."""
    return any(isinstance(wait, Unread) and wait.partition is partition for wait in waits)


def _is_acknowledged(partition: Partition, last_offset: int, acks: int) -> bool:
    return partition.is_synced(last_offset) if acks == ACKS_LEADER else partition.is_committed(last_offset)


def _refuse_zstd(batch: memoryview) -> None:
    if len(batch) > _ATTRIBUTES_LOW_BYTE and batch[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK == ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {FIRST_WITH_ZSTD}")


def _unanswered(ctx: RequestContext, answers: Answers) -> Parts | None:
    for topic, outcomes in answers:
        for outcome in outcomes:
            if outcome.error_code:
                code = ErrorCode(outcome.error_code)
                ctx.connection.end(f"a batch without acks for {topic!r}-{outcome.partition} failed with {code.name}")
                return None
    return []


class ParkedProduce:
    """Not yet as safe as the client asked for, or not yet looked into."""

    __slots__ = ("_acks", "_answers", "_ctx", "_slot", "_timer", "_waits")

    def __init__(
        self, ctx: RequestContext, request: ProduceRequest, answers: Answers, waits: list[Wait | Unread]
    ) -> None:
        self._ctx = ctx
        self._acks = request.acks
        self._answers = answers
        unread = [wait for wait in waits if isinstance(wait, Unread)]
        # What a client pipelines behind a batch that is not appended yet must not overtake it.
        self._slot: ReplySlot = ctx.connection.park(stop_reading=bool(unread), on_lost=self._stop_waiting)
        # By outcome: the partition that will call back, None while its batch is being looked into.
        self._waits: dict[int, tuple[ProduceOutcome, Partition | None, Callback]] = {}
        timeout_s = max(request.timeout_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._timed_out)
        for wait in waits:
            callback = partial(self._settled, wait.outcome)
            waits_for = None if isinstance(wait, Unread) else wait.partition
            self._waits[id(wait.outcome)] = (wait.outcome, waits_for, callback)
        if unread:
            ctx.broker.spawner.spawn("look into batches", self._append_after_a_look(unread))
        for wait in waits:
            if isinstance(wait, Wait):
                self._wait_for(wait.partition, wait.last_offset, wait.outcome)

    def _wait_for(self, partition: Partition, last_offset: int, outcome: ProduceOutcome) -> None:
        _, _, callback = self._waits[id(outcome)]
        if self._acks == ACKS_ALL:
            partition.when_committed(last_offset, callback)
        else:
            partition.when_synced(last_offset, callback)

    async def _append_after_a_look(self, unread: list[Unread]) -> None:
        """Also when the client is gone or its time is over: the order of what it sent must not have holes."""
        for partition, batch, outcome in unread:
            try:
                await self._ctx.broker.spawner.blocking(require_keys, batch)
                appended = partition.append(memoryview(batch), self._acks, self._ctx.broker.clock.wall_ms())
            except KafkaError as refusal:
                failed = _failed(outcome.partition, refusal)
                outcome.error_message, outcome.record_errors = failed.error_message, failed.record_errors
                self._settled(outcome, refusal.code)
                continue
            except OSError as broken:
                logger.warning("%s cannot be written to: %s", partition, broken)
                self._settled(outcome, ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            outcome.base_offset, last_offset, outcome.log_append_time_ms, outcome.log_start_offset, _, _ = appended
            if id(outcome) not in self._waits:
                continue
            if self._acks == ACKS_NONE or _is_acknowledged(partition, last_offset, self._acks):
                self._settled(outcome, ErrorCode.NONE)
            else:
                _, _, callback = self._waits[id(outcome)]
                self._waits[id(outcome)] = (outcome, partition, callback)
                self._wait_for(partition, last_offset, outcome)

    def _settled(self, outcome: ProduceOutcome, error: ErrorCode) -> None:
        if self._waits.pop(id(outcome), None) is None:
            return
        outcome.error_code = error
        if not self._waits:
            self._timer.cancel()
            self._answer()

    def _timed_out(self) -> None:
        for outcome, _, _ in self._waits.values():
            outcome.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._stop_waiting()
        self._answer()

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        for _, partition, callback in self._waits.values():
            if partition is not None:
                partition.forget(callback)
        self._waits.clear()

    def _answer(self) -> None:
        if self._acks == ACKS_NONE:
            self._slot.fill(_unanswered(self._ctx, self._answers) or [])
        else:
            version, correlation_id = self._ctx.version, self._ctx.correlation_id
            self._slot.fill([encode_produce_response(version, correlation_id, self._answers)])


API = FrameApi(key=0, versions=(3, 13), advertised=(0, 13), handle=handle)
