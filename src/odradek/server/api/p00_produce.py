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
from odradek.protocol.produce import (
    ProduceOutcome,
    ProduceRequest,
    decode_produce_request,
    encode_produce_response,
)
from odradek.replication.partition import ACKS_ALL, Partition
from odradek.replication.partition_table import HostedTopic
from odradek.security.authorizer import Operation
from odradek.server.request import FrameApi, Parts, ReplySlot, RequestContext
from odradek.server.topic_lookup import find_topic, missing_partition
from odradek.server.visible_cluster import is_internal

logger = logging.getLogger(__name__)

ACKS_NONE, ACKS_LEADER = 0, 1
ACKS = (ACKS_ALL, ACKS_NONE, ACKS_LEADER)
CODEC_BITS, ZSTD = 0x07, 4
WRITE = Operation.WRITE
FIRST_WITH_ZSTD = 7
_ATTRIBUTES_LOW_BYTE = 22
NO_TRANSACTIONS = "this broker has no transactions yet: produce without a transactional.id"

Answers = list[tuple[str | bytes, list[ProduceOutcome]]]


class Wait(NamedTuple):
    """An appended batch that may not be acknowledged yet."""

    partition: Partition
    last_offset: int
    outcome: ProduceOutcome


def handle(ctx: RequestContext, frame: memoryview, position: int, end: int) -> Parts | None:
    request = decode_produce_request(frame, ctx.version, position, end)
    acks = request.acks
    refusal = _refusal(request) if request.transactional_id is not None or acks not in ACKS else None
    wall_ms = ctx.broker.clock.wall_ms()
    waits: list[Wait] = []
    answers: Answers = []
    for topic, batches in request.topics:
        hosted = refusal or _writable_topic(ctx, topic)
        if isinstance(hosted, HostedTopic):
            outcomes = [_append(ctx, hosted, index, batch, acks, wall_ms, waits) for index, batch in batches]
        else:
            outcomes = [_failed(index, hosted) for index, _ in batches]
        answers.append((topic, outcomes))
    if acks == ACKS_NONE:
        return _unanswered(ctx, answers)
    if waits:
        ParkedProduce(ctx, request, answers, waits)
        return None
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
    waits: list[Wait],
) -> ProduceOutcome:
    partition = hosted.partitions.get(index)
    if partition is None:
        return ProduceOutcome(index, missing_partition(ctx, hosted, index))
    if not batch:
        return ProduceOutcome(index, ErrorCode.INVALID_RECORD, error_message="no record batch")
    try:
        if ctx.version < FIRST_WITH_ZSTD:
            _refuse_zstd(batch)
        base_offset, last_offset, append_time_ms, log_start_offset, _, _ = partition.append(batch, acks, wall_ms)
    except KafkaError as refusal:
        return _failed(index, refusal)
    except OSError as broken:  # what was asked of the log before it wrote anything
        logger.warning("%s cannot be written to: %s", partition, broken)
        return ProduceOutcome(index, ErrorCode.KAFKA_STORAGE_ERROR)
    outcome = ProduceOutcome(index, 0, base_offset, append_time_ms, log_start_offset)
    if not (partition.is_synced(last_offset) if acks == ACKS_LEADER else partition.is_committed(last_offset)):
        waits.append(Wait(partition, last_offset, outcome))
    return outcome


def _refuse_zstd(batch: memoryview) -> None:
    if len(batch) > _ATTRIBUTES_LOW_BYTE and batch[_ATTRIBUTES_LOW_BYTE] & CODEC_BITS == ZSTD:
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
    """Appended, but not yet as safe as the client asked for."""

    __slots__ = ("_answers", "_correlation_id", "_slot", "_timer", "_version", "_waits")

    def __init__(self, ctx: RequestContext, request: ProduceRequest, answers: Answers, waits: list[Wait]) -> None:
        self._version = ctx.version
        self._correlation_id = ctx.correlation_id
        self._answers = answers
        self._waits = {id(wait.outcome): (wait, partial(self._settled, wait.outcome)) for wait in waits}
        self._slot: ReplySlot = ctx.connection.park(stop_reading=False, on_lost=self._stop_waiting)
        timeout_s = max(request.timeout_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._timed_out)
        for wait, callback in list(self._waits.values()):
            if request.acks == ACKS_ALL:
                wait.partition.when_committed(wait.last_offset, callback)
            else:
                wait.partition.when_synced(wait.last_offset, callback)

    def _settled(self, outcome: ProduceOutcome, error: ErrorCode) -> None:
        del self._waits[id(outcome)]
        outcome.error_code = error
        if not self._waits:
            self._timer.cancel()
            self._answer()

    def _timed_out(self) -> None:
        for wait, _ in self._waits.values():
            wait.outcome.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._stop_waiting()
        self._answer()

    def _stop_waiting(self) -> None:
        self._timer.cancel()
        for wait, callback in self._waits.values():
            wait.partition.forget(callback)
        self._waits.clear()

    def _answer(self) -> None:
        self._slot.fill([encode_produce_response(self._version, self._correlation_id, self._answers)])


API = FrameApi(key=0, versions=(3, 13), advertised=(0, 13), handle=handle)
