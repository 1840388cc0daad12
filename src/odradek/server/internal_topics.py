"""The coordinators of this broker, and the internal topics that they keep their state in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, BrokerId, Offset
from odradek.base.ports import Clock, Region, Spawner
from odradek.coordinator.group.config import GroupConfig
from odradek.coordinator.group.shard import GroupShard
from odradek.coordinator.runtime import InternalTopic, Runtime
from odradek.coordinator.transaction.config import TransactionConfig
from odradek.coordinator.transaction.shard import TransactionShard
from odradek.log.verification import NOT_REQUIRED, Verification
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreatableTopicConfig
from odradek.server.own_topics import create_by_itself

if TYPE_CHECKING:
    from odradek.coordinator.ports import AskBroker
    from odradek.metadata.configs.broker import BrokerConfig
    from odradek.monitor.instruments import Counter
    from odradek.protocol.txn_marker import TxnMarker
    from odradek.replication.partition import Partition
    from odradek.replication.partition_table import PartitionTable
    from odradek.server.broker import Broker

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
# How long a change of a transaction waits for the replicas of its topic.
TRANSACTION_COMMIT_TIMEOUT_MS = 10_000


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


def transaction_coordinator(
    *,
    config: BrokerConfig,
    broker_id: BrokerId,
    clock: Clock,
    spawner: Spawner,
    partitions: PartitionTable,
    ask_broker: AskBroker,
    timed_out: Counter,
) -> Runtime[TransactionShard]:
    settings = TransactionConfig.of(config)
    return Runtime(
        topic=InternalTopic(
            name=TRANSACTIONS_TOPIC,
            partition_count=config.transaction_state_log_num_partitions,
            key_chars_max=limits.transactional_id_chars_max,
            key_too_long=ErrorCode.INVALID_REQUEST,
            commit_timeout_ms=TRANSACTION_COMMIT_TIMEOUT_MS,
        ),
        new_shard=lambda epoch: TransactionShard(settings, broker_id, epoch, timed_out),
        lead=lambda topic, index: led_now(partitions, topic, index, clock),
        ask_broker=ask_broker,
        clock=clock,
        spawner=spawner,
    )


def leader_for(broker: Broker, coordinator: Runtime[GroupShard] | Runtime[TransactionShard], key: str) -> BrokerId:
    """The broker that coordinates `key`. NO_BROKER: none does now."""
    topic = broker.image.topics.get(coordinator.topic.name)
    return NO_BROKER if topic is None else topic.partitions[coordinator.partition_for(key)].leader


async def create_offsets_topic(broker: Broker) -> None:
    """If it does not exist. It may still not exist then: without a controller, or without a broker to place it on."""
    if OFFSETS_TOPIC in broker.image.topics:
        return
    config = broker.config
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    await _create(
        broker, OFFSETS_TOPIC, config.offsets_topic_num_partitions, config.offsets_topic_replication_factor, configs
    )


async def create_transactions_topic(broker: Broker) -> None:
    """As `create_offsets_topic`."""
    if TRANSACTIONS_TOPIC in broker.image.topics:
        return
    config = broker.config
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "min.insync.replicas": str(config.transaction_state_log_min_isr),
        "unclean.leader.election.enable": "false",
    }
    replicas = config.transaction_state_log_replication_factor
    await _create(broker, TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions, replicas, configs)


async def _create(broker: Broker, name: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
    # Brokers that are down count, too: they get a replica when they are back.
    registered = len(broker.image.brokers)
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        # The first node of a cluster always has fewer brokers than the replicas wanted.
        replication_factor=max(min(replicas, registered), 1),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    try:
        await create_by_itself(broker, [topic])
    except KafkaError:
        # Clients get a retriable error, because the topic does not exist.
        return


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

    @property
    def batch_bytes_max(self) -> int:
        return self._partition.log.config.max_message_bytes

    def append(self, batch: bytearray, verification: Verification | None = None) -> Offset:
        partition = self._partition
        if partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(batch) > self.batch_bytes_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(batch)} bytes for {partition}")
        appended = partition.append_internal(batch, self._clock.wall_ms(), verification or NOT_REQUIRED)
        return Offset(appended.base_offset)

    def append_marker(self, marker: TxnMarker) -> Offset:
        partition = self._partition
        if partition.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return Offset(partition.append_marker(marker, self._clock.wall_ms()).base_offset)

    def is_committed(self, offset: Offset) -> bool:
        return self._partition.is_committed(offset)

    def when_committed(self, offset: Offset, callback: Callable[[ErrorCode], None]) -> None:
        self._partition.when_committed(offset, callback)
