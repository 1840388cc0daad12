"""A follower's fetch at its leader: the reply, and what the fetch says about the follower's progress."""

from __future__ import annotations

from typing import NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_EPOCH
from odradek.log.leader_epochs import UNDEFINED
from odradek.protocol.fetch import FetchPartition
from odradek.protocol.fetch_response import DivergingEpoch, FetchedPartition
from odradek.replication import safeguards
from odradek.replication.followers import UNKNOWN
from odradek.replication.isolation import FetchIsolation
from odradek.replication.partition import Partition


class Replica(NamedTuple):
    """The broker that fetches as a follower."""

    broker_id: int
    broker_epoch: int  # -1: not sent


def read_for_follower(
    partition: Partition,
    fetch: FetchPartition,
    replica: Replica,
    max_bytes: int,
    *,
    whole_first_batch: bool,
    arrived_ms: int | None,
) -> FetchedPartition:
    """Records up to the log end. If the follower's log has diverged: the diverging epoch and no records.

    `arrived_ms` is None when a waiting fetch is processed again. Only its arrival counts as progress of the follower.
    """
    error = _refusal(partition, fetch, replica)
    if error:
        return FetchedPartition(partition.index, error)
    log, offset = partition.log, fetch.fetch_offset
    if fetch.last_fetched_epoch != NO_EPOCH:
        epoch, end = log.end_offset_for_epoch(fetch.last_fetched_epoch)
        if (epoch, end) == UNDEFINED:
            return _out_of_range(partition)
        if offset >= log.log_start_offset and safeguards.has_diverged(fetch.last_fetched_epoch, offset, epoch, end):
            return FetchedPartition(
                partition.index,
                ErrorCode.NONE,
                partition.high_watermark,
                partition.last_stable_offset,
                log.log_start_offset,
                diverging_epoch=DivergingEpoch(epoch, end),
            )
    if not log.log_start_offset <= offset <= log.log_end_offset:
        return _out_of_range(partition)
    if arrived_ms is not None:
        partition.fetched_by(
            replica.broker_id,
            replica.broker_epoch,
            offset,
            log_start_offset=fetch.log_start_offset,
            now_ms=arrived_ms,
        )
    return partition.read(
        offset,
        max_bytes,
        fetch.current_leader_epoch,
        FetchIsolation.LOG_END,
        whole_first_batch=whole_first_batch,
    )


def told_high_watermark(partition: Partition, replica: Replica) -> int:
    """The high watermark last sent to the follower without a fetch session."""
    follower = None if partition.leading is None else partition.leading.follower(replica.broker_id)
    return UNKNOWN if follower is None else follower.told_high_watermark


def tell_high_watermark(partition: Partition, replica: Replica, read: FetchedPartition) -> None:
    """Record what was sent. A follower that must truncate ignores the high watermark of that reply."""
    follower = None if partition.leading is None else partition.leading.follower(replica.broker_id)
    if follower is not None:
        follower.told_high_watermark = read.high_watermark if read.diverging_epoch is None else UNKNOWN


def _out_of_range(partition: Partition) -> FetchedPartition:
    """The reply has the log start offset, where the follower may restart."""
    start = partition.log.log_start_offset
    return FetchedPartition(partition.index, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=start)


def _refusal(partition: Partition, fetch: FetchPartition, replica: Replica) -> ErrorCode:
    if not partition.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    error = partition.epoch_error(fetch.current_leader_epoch)
    if error:
        return error
    leading = partition.leading
    if leading is None or leading.follower(replica.broker_id) is None:
        # It has our leader epoch, so it knows an assignment that we do not know yet: make it retry.
        known = fetch.current_leader_epoch != NO_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leading.is_outdated(replica.broker_id, replica.broker_epoch):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE
