"""The cluster as it is after one offset of the metadata log: immutable, shared between versions, decided elsewhere.

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
# A broker has the replica, and no disk that would take it.
LOST_DIRECTORY = DirectoryId(bytes(15) + b"\x02")

# What a configuration belongs to, with Kafka's numbers.
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


class ConfigResource(NamedTuple):
    type: int  # TOPIC_RESOURCE or BROKER_RESOURCE
    # A broker's id as text; the empty name is the default of all brokers.
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
    # The offset of the record that registered this incarnation.
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
        """May lead partitions and be in their ISR."""
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
    # Grows with every change of leader, never falls for one topic id.
    leader_epoch: LeaderEpoch
    # Grows with every change of anything in this partition.
    partition_epoch: int
    # One for each replica, in the same order.
    directories: tuple[DirectoryId, ...] = ()
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    # 1 while the leader of an unclean election has not caught up with itself.
    recovery: int = 0

    def is_lost(self, broker_id: BrokerId) -> bool:
        """Its broker has said that the log failed, and not yet that it is back."""
        if LOST_DIRECTORY not in self.directories:  # of thousands of partitions, none is
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
    """What one commit changed. A topic deleted and created again under its name is in both: apply `deleted` first."""

    deleted: tuple[TopicImage, ...] = ()
    created: tuple[TopicImage, ...] = ()
    changed: tuple[TopicChange, ...] = ()
    configs: tuple[ConfigResource, ...] = ()
    brokers: tuple[BrokerId, ...] = ()


def collision_key(topic: str) -> str:
    """Topics that differ only in `.` and `_` cannot be told apart in metric names."""
    return topic.replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    cluster_id: str
    # The last record this image contains, and the epoch of the leader that wrote it; -1 before the first.
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
    # The records of a metadata transaction that has begun and not ended: not part of what is true yet.
    transaction: tuple[Message, ...] | None = None

    def replay(self, records: Sequence[Message], offset: Offset, epoch: LeaderEpoch) -> tuple[ClusterImage, ImageDelta]:
        """The image after `records`, of which the last one lies at `offset`."""
        from odradek.metadata.replay import replay

        return replay(self, records, offset, epoch)

    def passed(self, offset: Offset, epoch: LeaderEpoch) -> ClusterImage:
        """The same truth at a later offset: control records lie in between."""
        return replace(self, offset=offset, epoch=epoch)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set for this resource alone, without defaults."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    def as_delta(self) -> ImageDelta:
        """From nothing to this image: what a listener gets at start."""
        return ImageDelta(
            created=tuple(self.topics.values()),
            configs=tuple(self.configs),
            brokers=tuple(BrokerId(broker_id) for broker_id in self.brokers),
        )

    def since(self, earlier: ClusterImage) -> ImageDelta:
        """What changed between two images of one cluster when nobody saw the commits in between."""
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
