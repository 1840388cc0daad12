"""The coordinators of this broker, on the internal topics that it leads partitions of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import Offset
from odradek.base.ports import Clock, Region, Spawner
from odradek.coordinator.group.config import GroupConfig
from odradek.coordinator.group.shard import GroupShard
from odradek.coordinator.runtime import InternalTopic, Runtime

if TYPE_CHECKING:
    from odradek.coordinator.ports import AskBroker
    from odradek.metadata.configs.broker import BrokerConfig
    from odradek.protocol.txn_marker import TxnMarker
    from odradek.replication.partition import Partition
    from odradek.replication.partition_table import PartitionTable

OFFSETS_TOPIC = "__consumer_offsets"


def group_coordinator(
    *, config: BrokerConfig, clock: Clock, spawner: Spawner, partitions: PartitionTable, ask_broker: AskBroker
) -> Runtime[GroupShard]:
    settings = GroupConfig.of(config)
    return Runtime(
        topic=InternalTopic(
            name=OFFSETS_TOPIC,
            partition_count=config.offsets_topic_num_partitions,
            key_chars_max=limits.group_id_chars_max,
            key_too_long=ErrorCode.INVALID_GROUP_ID,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
        ),
        new_shard=lambda _epoch: GroupShard(settings),
        lead=lambda topic, index: led_now(partitions, topic, index, clock),
        ask_broker=ask_broker,
        clock=clock,
        spawner=spawner,
    )


def led_now(partitions: PartitionTable, topic: str, index: int, clock: Clock) -> PartitionLeadership | None:
    partition = partitions.get(topic, index)
    if partition is None or not partition.is_leader:
        return None
    return PartitionLeadership(partition, clock, lambda: partitions.get(topic, index) is partition)


class PartitionLeadership:
    """A coordinator's `Leadership`: one partition for as long as this broker leads it in one epoch."""

    __slots__ = ("_clock", "_is_hosted", "_partition", "leader_epoch")

    def __init__(self, partition: Partition, clock: Clock, is_hosted: Callable[[], bool]) -> None:
        self._partition = partition
        self._clock = clock
        # False when the topic was deleted, even if it was created again.
        self._is_hosted = is_hosted
        self.leader_epoch = partition.leader_epoch

    def __str__(self) -> str:
        return str(self._partition)

    @property
    def is_current(self) -> bool:
        partition = self._partition
        return partition.is_leader and partition.leader_epoch == self.leader_epoch and self._is_hosted()

    @property
    def log_start_offset(self) -> Offset:
        return Offset(self._partition.log.log_start_offset)

    @property
    def log_end_offset(self) -> Offset:
        return Offset(self._partition.log.log_end_offset)

    def read(self, offset: Offset, max_bytes: int, end_offset: Offset) -> Region | None:
        return self._partition.log.read(offset, max_bytes, end_offset, whole_first_batch=True)

    def append(self, batch: bytearray) -> Offset:
        partition = self._partition
        if partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(batch) > partition.log.config.max_message_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(batch)} bytes for {partition}")
        return Offset(partition.append_internal(batch, self._clock.wall_ms()).base_offset)

    def append_marker(self, marker: TxnMarker) -> Offset:
        partition = self._partition
        if partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return Offset(partition.append_marker(marker, self._clock.wall_ms()).base_offset)

    def is_committed(self, offset: Offset) -> bool:
        return self._partition.is_committed(offset)

    def when_committed(self, offset: Offset, callback: Callable[[ErrorCode], None]) -> None:
        self._partition.when_committed(offset, callback)
