"""What a follower does with its leader's reply: append, truncate, restart with an empty log, or wait.

Everything here is about one partition and one reply:

    records, watermarks   append the batches that continue this log, then update the watermarks
    a diverging epoch     truncate to where both logs agree: at most the end of that epoch on either side
    OFFSET_OUT_OF_RANGE   the leader's log begins after this one ends: restart empty at the leader's log start
                          (also if it begins exactly there, or at the truncation offset: records before may differ)
    FENCED_LEADER_EPOCH   there is a newer leader: wait for the image
    any other error       retry after a backoff
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from struct import Struct
from typing import NamedTuple, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.batch import HEADER_BYTES, LOG_OVERHEAD
from odradek.protocol.fetch_response import DivergingEpoch
from odradek.replication import safeguards
from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)

_batch = Struct(">qii7xi")  # base offset, length, leader epoch, (magic, checksum, attributes), last offset delta


class FetchAnswer(Protocol):
    """The part of a leader's reply for one partition."""

    @property
    def error_code(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def diverging_epoch(self) -> DivergingEpoch | None: ...
    @property
    def records(self) -> memoryview | None: ...


class Position(NamedTuple):
    """The position a follower fetches from."""

    leader_epoch: int
    offset: int
    last_epoch: int  # of the record before `offset`, -1 when there is none
    log_start_offset: int


class Verdict(Enum):
    GO_ON = auto()
    RETRY = auto()  # after a backoff
    AWAIT_IMAGE = auto()  # until the leader epoch changes
    GIVE_UP = auto()  # this log is offline


def position(partition: Partition) -> Position:
    log = partition.log
    end = log.log_end_offset
    return Position(partition.leader_epoch, end, log.leader_epochs.epoch_at(end - 1), log.log_start_offset)


def take(partition: Partition, asked: Position, answer: FetchAnswer, wall_ms: int) -> Verdict:
    """Process the leader's reply to a fetch from `asked`."""
    if partition.is_leader or not safeguards.is_still_wanted(
        asked.offset, partition.log.log_end_offset, asked.leader_epoch, partition.leader_epoch
    ):
        return Verdict.GO_ON
    try:
        if answer.error_code:
            return _take_error(partition, answer)
        if answer.diverging_epoch is not None:
            return _truncate(partition, answer.diverging_epoch, answer.log_start_offset)
        is_from_another_leader = asked.last_epoch < partition.leader_epoch
        if is_from_another_leader and not _is_known_alike(partition, asked.offset, answer.log_start_offset):
            return _restart(partition, answer.log_start_offset)
        return _append(partition, answer, wall_ms)
    except (KafkaError, OSError) as failure:
        return _failed(partition, failure)


def _append(partition: Partition, answer: FetchAnswer, wall_ms: int) -> Verdict:
    verdict = Verdict.GO_ON
    if answer.records:
        records = _continuing(partition, answer.records)
        if not records:
            verdict = Verdict.RETRY
        else:
            partition.append_fetched(records, wall_ms)
    partition.follow_watermarks(answer.high_watermark, answer.log_start_offset)
    return verdict


def _continuing(partition: Partition, records: memoryview) -> memoryview:
    """The whole batches that continue this log and are not of a later epoch than the followed one."""
    log = partition.log
    expected = log.log_end_offset
    position, end = 0, len(records)
    while end - position >= HEADER_BYTES:
        base, length, epoch, delta = _batch.unpack_from(records, position)
        after = position + LOG_OVERHEAD + length
        if length < HEADER_BYTES - LOG_OVERHEAD or after > end or delta < 0:
            break
        if not safeguards.is_of_followed_epoch(epoch, partition.leader_epoch):
            logger.warning(
                "%s: the leader of epoch %d sent a batch of epoch %d", partition, partition.leader_epoch, epoch
            )
            break
        # The leader's log begins inside this batch: an empty log begins with the batch.
        begins_inside = position == 0 and log.log_start_offset == expected <= base + delta
        if base < expected and not begins_inside:
            # A gap before the batch is fine: the leader's log is or was compacted.
            logger.error("%s ends at %d, but the leader sent a batch at %d", partition, expected, base)
            break
        expected = base + delta + 1
        position = after
    return records[:position]


def _truncate(partition: Partition, diverging: DivergingEpoch, leaders_start: int) -> Verdict:
    log = partition.log
    end, latest = log.log_end_offset, log.leader_epochs.latest
    _, own_end = log.end_offset_for_epoch(diverging.leader_epoch)
    offset = safeguards.truncation_offset(
        end if own_end < 0 else own_end, diverging.end_offset, partition.high_watermark
    )
    logger.info(
        "%s: epoch %d ends at %d on the leader of epoch %d: truncating from %d to %d",
        *(partition, diverging.leader_epoch, diverging.end_offset, partition.leader_epoch, end, offset),
    )
    if not _is_known_alike(partition, offset, leaders_start):
        return _restart(partition, leaders_start)
    partition.truncate_to(max(offset, 0))
    changed = (end, latest) != (log.log_end_offset, log.leader_epochs.latest)
    return Verdict.GO_ON if changed else Verdict.RETRY


def _take_error(partition: Partition, answer: FetchAnswer) -> Verdict:
    code = answer.error_code
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return _begin_anew(partition, answer.log_start_offset)
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        logger.info("%s: broker %d no longer leads epoch %d", partition, partition.leader_id, partition.leader_epoch)
        return Verdict.AWAIT_IMAGE
    return Verdict.RETRY


def _begin_anew(partition: Partition, leaders_start: int) -> Verdict:
    """Restart if the leader has none of the records here any more, or if this log is empty."""
    log = partition.log
    is_empty = log.log_start_offset == log.log_end_offset
    if leaders_start < 0 or not (log.log_end_offset < leaders_start or is_empty):
        return Verdict.RETRY
    return _restart(partition, leaders_start)


def _is_known_alike(partition: Partition, offset: int, leaders_start: int) -> bool:
    """Whether the records here below `offset` are known to be the same as on the leader."""
    return safeguards.is_known_alike(offset, leaders_start, partition.high_watermark)


def _restart(partition: Partition, leaders_start: int) -> Verdict:
    log = partition.log
    logger.warning(
        "%s: the leader's log begins at %d, deleting the local offsets %d to %d",
        *(partition, leaders_start, log.log_start_offset, log.log_end_offset),
    )
    partition.restart_at(leaders_start)
    return Verdict.GO_ON


def _failed(partition: Partition, failure: KafkaError | OSError) -> Verdict:
    if partition.log.offline is not None:
        logger.error("%s is offline: %s", partition, failure)
        return Verdict.GIVE_UP
    logger.warning("%s: cannot store the leader's reply, will retry: %s", partition, failure)
    return Verdict.RETRY
