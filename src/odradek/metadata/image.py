"""The cluster's state after one offset of the metadata log: immutable, with structure shared between versions.

A commit yields the next image and an `ImageDelta`. Topics that a commit did not touch are the same
objects in both images, so a reader may keep an image for as long as it likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from odradek.base.ids import NO_EPOCH, BrokerId, DirectoryId, LeaderEpoch, Offset, TopicId
from odradek.metadata.sharded_map import ShardedMap, shard_of_text, shard_of_uuid
from odradek.protocol.schema import Message

NO_OFFSET = Offset(-1)
UNASSIGNED_DIRECTORY = DirectoryId(bytes(15) + b"\x01")
# The directory of a replica whose log or disk failed.
LOST_DIRECTORY = DirectoryId(bytes(15) + b"\x02")

# Kafka's codes for resource types.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32


class ConfigResource(NamedTuple):
    type: int  # TOPIC_RESOURCE, BROKER_RESOURCE or CLIENT_METRICS_RESOURCE
    # The name of a broker is its id as text; the empty name is the default of all brokers.
    name: str


class Listener(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


class FeatureRange(NamedTuple):
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    broker_id: BrokerId
    # The offset of this incarnation's registration record.
    broker_epoch: int
    incarnation_id: bytes
    listeners: tuple[Listener, ...]
    features: Mapping[str, FeatureRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[DirectoryId, ...]

    @property
    def active(self) -> bool:
        """Whether it may lead partitions and be in their ISR."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    controller_id: BrokerId
    incarnation_id: bytes
    listeners: tuple[Listener, ...]
    features: Mapping[str, FeatureRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    index: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    # Grows with every leader change; never decreases for one topic id.
    leader_epoch: LeaderEpoch
    # Grows with every change of this partition.
    partition_epoch: int
    # One for each replica, in the same order.
    directories: tuple[DirectoryId, ...] = ()
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    # 1 while the leader of an unclean election is recovering.
    recovery: int = 0

    def is_lost(self, broker_id: BrokerId) -> bool:
        """Whether the broker reported the replica's log as failed, and not yet as online again."""
        if LOST_DIRECTORY not in self.directories:  # the common case: no directory is lost
            return False
        return (broker_id, LOST_DIRECTORY) in zip(self.replicas, self.directories, strict=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    name: str
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]


class TopicChange(NamedTuple):
    before: TopicImage
    after: TopicImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDelta:
    """The changes of one commit. A topic that was deleted and created again is in both lists: apply `deleted` first."""

    deleted: tuple[TopicImage, ...] = ()
    created: tuple[TopicImage, ...] = ()
    changed: tuple[TopicChange, ...] = ()
    configs: tuple[ConfigResource, ...] = ()
    brokers: tuple[BrokerId, ...] = ()


def collision_key(topic: str) -> str:
    """Topics that differ only in `.` and `_` have the same name in metrics."""
    return topic.replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    cluster_id: str
    # The offset of the last record in this image, and its leader epoch; -1 before the first record.
    offset: Offset = NO_OFFSET
    epoch: LeaderEpoch = NO_EPOCH
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=dict)
    topics: ShardedMap[str, TopicImage] = field(default_factory=lambda: ShardedMap(shard_of_text))
    topics_by_id: ShardedMap[bytes, TopicImage] = field(default_factory=lambda: ShardedMap(shard_of_uuid))
    # collision_key -> name, of the topics that have a `.` or `_`.
    colliding_names: ShardedMap[str, str] = field(default_factory=lambda: ShardedMap(shard_of_text))
    configs: ShardedMap[ConfigResource, Mapping[str, str]] = field(
        default_factory=lambda: ShardedMap(lambda resource: shard_of_text(resource.name))
    )
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    # The records of an open metadata transaction: not applied yet.
    transaction: tuple[Message, ...] | None = None

    def replay(self, records: Sequence[Message], offset: Offset, epoch: LeaderEpoch) -> tuple[ClusterImage, ImageDelta]:
        """The image after `records`; the last one has `offset`."""
        from odradek.metadata.replay import replay

        return replay(self, records, offset, epoch)

    def passed(self, offset: Offset, epoch: LeaderEpoch) -> ClusterImage:
        """The same state at a later offset, after control records."""
        return replace(self, offset=offset, epoch=epoch)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The configs that are set for this resource, without defaults."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    def client_metrics(self) -> dict[str, Mapping[str, str]]:
        """The configs of the client metrics subscriptions, by name."""
        return {
            resource.name: values
            for resource, values in self.configs.items()
            if resource.type == CLIENT_METRICS_RESOURCE
        }

    def as_delta(self) -> ImageDelta:
        """The delta from an empty image, for a listener's start."""
        return ImageDelta(
            created=tuple(self.topics.values()),
            configs=tuple(self.configs),
            brokers=tuple(BrokerId(broker_id) for broker_id in self.brokers),
        )

    def since(self, earlier: ClusterImage) -> ImageDelta:
        """The delta between two images, for when the commits in between are not known."""
        shared = [topic for topic in self.topics.values() if topic.topic_id in earlier.topics_by_id]
        resources = dict.fromkeys((*earlier.configs, *self.configs))
        return ImageDelta(
            deleted=tuple(topic for topic in earlier.topics.values() if topic.topic_id not in self.topics_by_id),
            created=tuple(topic for topic in self.topics.values() if topic.topic_id not in earlier.topics_by_id),
            changed=tuple(
                TopicChange(earlier.topics_by_id[topic.topic_id], topic)
                for topic in shared
                if topic != earlier.topics_by_id[topic.topic_id]
            ),
            configs=tuple(each for each in resources if earlier.configs.get(each) != self.configs.get(each)),
            brokers=tuple(
                BrokerId(each)
                for each in dict.fromkeys((*earlier.brokers, *self.brokers))
                if earlier.brokers.get(each) != self.brokers.get(each)
            ),
        )
