"""Produce 3-13: append one batch to each of some partitions.

Advertised from 0, since older librdkafka stops compressing when it is not (KAFKA-18659), but 0-2 are not served. 3-6
know no zstd. 8 adds error messages. 9 is flexible. 11 knows TRANSACTION_ABORTABLE. 12: partitions join a transaction by
their first batch (KIP-890); in older versions the client adds them before. 13 names topics by id.

acks=0 gets no response; on an error the broker closes the connection, so that the client looks up the leader again.
acks=1 is answered once this replica has the batch as durably as its topic requires, acks=all once it is committed. Two
batches for one partition in one request are both appended, in order. A batch whose records must be read first, for
their keys or to recompress it, is queued in `unappended`. The first batch of a transaction waits until the
transaction's coordinator has confirmed it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.appended import Appended, RecordsRefused
from odradek.log.recompression import has_other_codec
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
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import BrokerContext, FrameApi, Parts, ReplySlot
from odradek.server.topic_lookup import find_topic, missing_partition
from odradek.server.transactions.produced import NOTHING, UnverifiedProduce, Verified, verified_here
from odradek.server.unappended import Arrival, TooMuchQueued
from odradek.server.visible_cluster import is_internal

logger = logging.getLogger(__name__)

ACKS_NONE, ACKS_LEADER = 0, 1
ACKS = (ACKS_ALL, ACKS_NONE, ACKS_LEADER)
ZSTD = int(Codec.ZSTD)
WRITE = Operation.WRITE
FIRST_WITH_ZSTD = 7
_ATTRIBUTES_LOW_BYTE = 22

Answers = list[tuple[str | bytes, list[ProduceOutcome]]]


class Wait(NamedTuple):
    """A batch that may not be acknowledged yet."""

    partition: Partition
    last_offset: int
    outcome: ProduceOutcome


class Unread(NamedTuple):
    """A batch that is queued, to be appended later."""

    partition: Partition
    arrival: Arrival
    outcome: ProduceOutcome


def handle(ctx: BrokerContext, frame: memoryview, position: int, end: int) -> Parts | None:
    request = decode_produce_request(frame, ctx.version, position, end)
    if request.transactional_id is None:
        return _produce(ctx, request)
    return _produce_in_transaction(ctx, request, request.transactional_id, frame[position:end])


def _produce_in_transaction(
    ctx: BrokerContext, request: ProduceRequest, transactional_id: str, body: memoryview
) -> Parts | None:
    if not ctx.authorize(WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _refuse_all(ctx, request, KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    verified, unverified = verified_here(ctx, _batches(ctx, request))
    if not unverified:
        return _produce(ctx, request, verified)
    copy = decode_produce_request(memoryview(bytearray(body)), ctx.version, 0, len(body))

    def go_on(outcome: Verified, slot: ReplySlot) -> Parts | None:
        return _produce(ctx, copy, outcome, slot)

    try:
        UnverifiedProduce(ctx, transactional_id, verified, unverified, len(body), go_on)
    except KafkaError as refusal:
        return _refuse_all(ctx, request, refusal)
    return None


def _batches(ctx: BrokerContext, request: ProduceRequest) -> Iterator[tuple[Partition, memoryview | None]]:
    for topic, batches in request.topics:
        hosted = _writable_topic(ctx, topic)
        if isinstance(hosted, HostedTopic):
            for index, batch in batches:
                partition = hosted.partitions.get(index)
                if partition is not None:
                    yield partition, batch


def _refuse_all(ctx: BrokerContext, request: ProduceRequest, refusal: KafkaError) -> Parts:
    answers: Answers = [
        (topic, [_failed(ctx, index, refusal) for index, _ in batches]) for topic, batches in request.topics
    ]
    return _reply(ctx, request.acks, answers)


def _produce(
    ctx: BrokerContext, request: ProduceRequest, verified: Verified = NOTHING, slot: ReplySlot | None = None
) -> Parts | None:
    """`slot`: the place of the reply, if the request has waited already."""
    acks = request.acks
    refusal = None
    if acks not in ACKS:
        refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}, not -1, 0 or 1")
    wall_ms = ctx.broker.clock.wall_ms()
    waits: list[Wait | Unread] = []
    answers: Answers = []
    for topic, batches in request.topics:
        hosted = refusal or _writable_topic(ctx, topic)
        if isinstance(hosted, HostedTopic):
            outcomes = []
            # No comprehension: it is a call, and most requests have one batch.
            for index, batch in batches:
                outcomes.append(_append(ctx, hosted, index, batch, acks, wall_ms, waits, verified))
        else:
            outcomes = [_failed(ctx, index, hosted) for index, _ in batches]
        answers.append((topic, outcomes))
    if waits:
        ParkedProduce(ctx, request, answers, waits, slot)
        return None
    return _reply(ctx, acks, answers)


def _reply(ctx: BrokerContext, acks: int, answers: Answers) -> Parts:
    if acks == ACKS_NONE:
        return _unanswered(ctx, answers)
    return [encode_produce_response(ctx.version, ctx.correlation_id, answers)]


def _writable_topic(ctx: BrokerContext, topic: str | bytes) -> HostedTopic | KafkaError:
    hosted = find_topic(ctx, topic, WRITE)
    if isinstance(hosted, HostedTopic) and is_internal(hosted.name):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{hosted.name} is written by the broker alone")
    return hosted


def _failed(ctx: BrokerContext, index: int, refusal: KafkaError) -> ProduceOutcome:
    outcome = ProduceOutcome(index)
    _refuse(ctx, outcome, refusal)
    return outcome


def _refuse(ctx: BrokerContext, outcome: ProduceOutcome, refusal: KafkaError) -> None:
    ctx.note_error(refusal.code)
    outcome.error_code = refusal.code
    outcome.error_message = refusal.message or None
    outcome.record_errors = refusal.records if isinstance(refusal, RecordsRefused) else ()


def _append(
    ctx: BrokerContext,
    hosted: HostedTopic,
    index: int,
    batch: memoryview | None,
    acks: int,
    wall_ms: int,
    waits: list[Wait | Unread],
    verified: Verified,
) -> ProduceOutcome:
    partition = hosted.partitions.get(index)
    if partition is None:
        return _failed(ctx, index, KafkaError(missing_partition(ctx, hosted, index)))
    if not batch:
        return _failed(ctx, index, KafkaError(ErrorCode.INVALID_RECORD, "no record batch"))
    verification = None
    if verified is not NOTHING:
        try:
            verification = verified.of(partition, batch)
        except KafkaError as refusal:
            return _failed(ctx, index, refusal)
    try:
        if ctx.version < FIRST_WITH_ZSTD:
            _refuse_zstd(batch)
        if (partition.log.config.looks_inside or partition.unappended) and _comes_later(partition, batch):
            outcome = ProduceOutcome(index)
            arrival = ctx.broker.unappended.add(partition, batch, acks, verification)
            waits.append(Unread(partition, arrival, outcome))
            return outcome
        base_offset, last_offset, append_time_ms, log_start_offset, _, _ = partition.append(
            batch, acks, wall_ms, verification
        )
    except TooMuchQueued as refusal:
        # Later batches of this client must not be appended before this one.
        ctx.connection.end(refusal.message)
        return _failed(ctx, index, refusal)
    except KafkaError as refusal:
        if partition.traffic is not None:
            partition.traffic.refused(batch, refusal)
        return _failed(ctx, index, refusal)
    except OSError as broken:  # raised before the log wrote anything
        logger.warning("%s cannot be written to: %s", partition, broken)
        return _failed(ctx, index, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    outcome = ProduceOutcome(index, 0, base_offset, append_time_ms, log_start_offset)
    if acks and not partition.is_acknowledged(last_offset, acks):
        waits.append(Wait(partition, last_offset, outcome))
    return outcome


def _comes_later(partition: Partition, batch: memoryview) -> bool:
    """Whether the batch must be read off the event loop, or is queued behind one that must."""
    config = partition.log.config
    if len(batch) > config.max_message_bytes or not partition.is_leader:
        return False  # no need to copy and read it: `append` refuses it
    if partition.unappended or has_other_codec(batch, config.codec):
        return True
    if not config.compacts:
        return False
    if is_slow_to_look_into(batch):
        return True
    require_keys(batch)
    return False


def _refuse_zstd(batch: memoryview) -> None:
    if len(batch) > _ATTRIBUTES_LOW_BYTE and batch[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK == ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {FIRST_WITH_ZSTD}")


def _unanswered(ctx: BrokerContext, answers: Answers) -> Parts:
    for topic, outcomes in answers:
        for outcome in outcomes:
            if outcome.error_code:
                code = ErrorCode(outcome.error_code)
                ctx.connection.end(f"a batch without acks for {topic!r}-{outcome.partition} failed with {code.name}")
                return []
    return []


class ParkedProduce:
    """Not yet appended, or not yet as safe as the client asked for.

    The client's timeout covers only the wait for acks, as in Kafka: a queued batch will be appended in any case.
    """

    __slots__ = ("_acks", "_answers", "_ctx", "_slot", "_timeout_s", "_timer", "_unread", "_waits")

    def __init__(
        self,
        ctx: BrokerContext,
        request: ProduceRequest,
        answers: Answers,
        waits: list[Wait | Unread],
        slot: ReplySlot | None,
    ) -> None:
        self._ctx = ctx
        self._acks = request.acks
        self._answers = answers
        self._timeout_s = max(request.timeout_ms, 0) / 1000
        self._timer: asyncio.TimerHandle | None = None
        # By outcome: the partition that will call back, None while its batch is not appended.
        self._waits: dict[int, tuple[ProduceOutcome, Partition | None, Callback]] = {}
        self._unread = 0
        for wait in waits:
            callback = partial(self._settled, wait.outcome)
            if isinstance(wait, Unread):
                self._unread += 1
                wait.arrival.told = partial(self._appended, wait.partition, wait.outcome)
                self._waits[id(wait.outcome)] = (wait.outcome, None, callback)
            else:
                self._waits[id(wait.outcome)] = (wait.outcome, wait.partition, callback)
        ctx.broker.tally.parked_produces += 1
        # One request of a connection at a time: its batches take memory until they are appended.
        self._slot = slot or ctx.connection.park(stop_reading=self._unread > 0, on_lost=self._stop_waiting)
        self._slot.on_lost = self._stop_waiting
        if not self._unread:
            self._start_timer()
            if slot is not None:
                slot.let_pass()
        for wait in waits:
            if isinstance(wait, Wait):
                self._wait_for(wait.partition, wait.last_offset, wait.outcome)

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._timed_out)

    def _wait_for(self, partition: Partition, last_offset: int, outcome: ProduceOutcome) -> None:
        _, _, callback = self._waits[id(outcome)]
        if self._acks == ACKS_ALL:
            partition.when_committed(last_offset, callback)
        else:
            partition.when_synced(last_offset, callback)

    def _appended(self, partition: Partition, outcome: ProduceOutcome, result: Appended | KafkaError) -> None:
        self._unread -= 1
        if id(outcome) not in self._waits:
            return  # the client is gone
        _, _, callback = self._waits[id(outcome)]
        if isinstance(result, KafkaError):
            _refuse(self._ctx, outcome, result)
            callback(result.code)
        else:
            outcome.base_offset, last_offset, outcome.log_append_time_ms, outcome.log_start_offset, _, _ = result
            if self._acks == ACKS_NONE or partition.is_acknowledged(last_offset, self._acks):
                callback(ErrorCode.NONE)
            else:
                self._waits[id(outcome)] = (outcome, partition, callback)
                self._wait_for(partition, last_offset, outcome)
        if not self._unread and self._waits:
            self._start_timer()
            self._slot.let_pass()

    def _settled(self, outcome: ProduceOutcome, error: ErrorCode) -> None:
        if self._waits.pop(id(outcome), None) is None:
            return
        if error and not outcome.error_code:
            _refuse(self._ctx, outcome, KafkaError(error))
        if not self._waits:
            self._stop_waiting()
            self._answer()

    def _timed_out(self) -> None:
        for outcome, _, _ in self._waits.values():
            _refuse(self._ctx, outcome, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        self._ctx.broker.tally.expired_produces.count += 1
        self._stop_waiting()
        self._answer()

    def _stop_waiting(self) -> None:
        """Called once: before the reply, or when the connection is lost."""
        self._ctx.broker.tally.parked_produces -= 1
        if self._timer is not None:
            self._timer.cancel()
        for _, partition, callback in self._waits.values():
            if partition is not None:
                partition.forget(callback)
        self._waits.clear()

    def _answer(self) -> None:
        self._slot.fill(_reply(self._ctx, self._acks, self._answers))


API = FrameApi(key=0, versions=(3, 13), advertised=(0, 13), handle=handle)
