"""The partition that a client names, if this broker leads it."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_EPOCH
from odradek.replication.partition import Partition
from odradek.server.broker import Broker


def local_partition(broker: Broker, topic: str, index: int) -> Partition:
    """A partition on other brokers is NOT_LEADER_OR_FOLLOWER: the client refreshes its metadata and retries."""
    partition = broker.partitions.get(topic, index)
    if partition is None:
        known = broker.image.topics.get(topic)
        elsewhere = known is not None and 0 <= index < len(known.partitions)
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER if elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partition


def led_partition(broker: Broker, topic: str, index: int, current_leader_epoch: int = NO_EPOCH) -> Partition:
    partition = local_partition(broker, topic, index)
    error = partition.epoch_error(current_leader_epoch)
    if error:
        raise KafkaError(error)
    if not partition.is_leader:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition
