"""The partitions that have a replica on this broker, according to the cluster image.

`apply` runs on the event loop, in commit order. When it returns, partitions that this broker leads accept writes, and
deleted partitions are no longer visible. Their files are removed later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from odradek.base.errors import ErrorCode
from odradek.base.ids import BrokerId, TopicId, TopicPartition
from odradek.base.invariants import invariant
from odradek.base.ports import Clock, Volume
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.log.log import Log
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.in_force import effective_broker_config, effective_topic_config
from odradek.metadata.image import TOPIC_RESOURCE, ClusterImage, ConfigResource, ImageDelta, PartitionImage, TopicImage
from odradek.replication.isr import LiveBrokers, Propose, nobody_to_ask
from odradek.replication.log_config import log_config
from odradek.replication.partition import Partition
from odradek.replication.traffic import Traffic

logger = logging.getLogger(__name__)


class HostedTopic:
    """A topic, and its partitions that have a replica here."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, Partition] = {}


class TopicSettings:
    """The topic configurations of one image, computed once. Topics without own configs share one result."""

    __slots__ = ("_broker", "_image", "_known", "_shared")

    def __init__(self, image: ClusterImage, broker: BrokerConfig) -> None:
        self._image = image
        self._broker = broker
        self._known: dict[str, tuple[LogConfig, int]] = {}
        self._shared: tuple[LogConfig, int] | None = None

    def of(self, topic: str) -> tuple[LogConfig, int]:
        """The log configuration and min.insync.replicas of a topic."""
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = self._found(topic)
        return known

    def _found(self, topic: str) -> tuple[LogConfig, int]:
        if self._image.config(TOPIC_RESOURCE, topic):
            return self._settings(topic)
        if self._shared is None:
            self._shared = self._settings(topic)
        return self._shared

    def _settings(self, topic: str) -> tuple[LogConfig, int]:
        config = effective_topic_config(self._image, topic, self._broker)
        return log_config(config, effective_broker_config(self._image, self._broker)), config.min_insync_replicas


class PartitionTable:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        logs: LogDirectory,
        request_sync: Callable[[Partition], None],
        remove_later: Callable[[str, int], None],
        propose: Propose = nobody_to_ask,
        follow: Callable[[Partition], None] | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """The callbacks get:

        - `remove_later`: the directory of a deleted log, and after how many milliseconds to remove it
        - `propose`: an ISR change that a leader wants
        - `follow`: a partition whose leader or leader epoch changed, or that is no longer here
        """
        self._config = config
        self._broker_id = BrokerId(config.node_id)
        self._clock = clock
        self._logs = logs
        self._request_sync = request_sync
        self._remove_later = remove_later
        self._propose = propose
        self._follow = follow
        self.traffic = traffic
        self._brokers = LiveBrokers()
        self.topics: dict[str, HostedTopic] = {}
        self.topics_by_id: dict[bytes, HostedTopic] = {}
        # Partitions that belong here, but whose log could not be created.
        self.unopened: dict[tuple[TopicId, int], PartitionImage] = {}

    def get(self, topic: str, index: int) -> Partition | None:
        hosted = self.topics.get(topic)
        return None if hosted is None else hosted.partitions.get(index)

    @property
    def location(self) -> str:
        """The path of the directory with the logs of all partitions."""
        return self._logs.disk.location

    def volume(self) -> Volume:
        """Slow. The volume of that directory. Raises OSError when its disk does not answer."""
        return self._logs.volume()

    def all(self) -> Iterator[Partition]:
        for hosted in self.topics.values():
            yield from hosted.partitions.values()

    def start(self, image: ClusterImage) -> None:
        """Apply the first image after the logs are loaded. Logs of partitions that are not in it are put aside."""
        self.apply(image, image.as_delta())
        for log in list(self._logs.logs.values()):
            if self.get(*log.topic_partition) is None:
                self._logs.mark_stray(log.topic_partition)

    def tick(self, now_ms: int) -> None:
        """Called twice per replica.lag.time.max.ms: lagging followers are removed from the ISR."""
        for partition in self.all():
            partition.tick(now_ms)

    def apply(self, image: ClusterImage, delta: ImageDelta) -> None:
        settings = TopicSettings(image, self._config)
        self._brokers.registered = image.brokers
        for topic in delta.deleted:
            self._delete(topic)
        # First: a smaller ISR in this image must be combined with the min.insync.replicas that was set before it.
        for hosted in self._concerned(delta.configs):
            for partition in hosted.partitions.values():
                partition.min_isr_wanted = settings.of(hosted.name)[1]
        for topic in delta.created:
            self._host(topic, settings)
        for change in delta.changed:
            self._host(change.after, settings)
        self._configure(delta.configs, settings)
        if delta.brokers:
            self._brokers_changed(delta.brokers)

    def _brokers_changed(self, changed: tuple[BrokerId, ...]) -> None:
        """A leader may wait for a follower outside the ISR. If that is fenced, the partition itself does not change."""
        now_ms = self._clock.monotonic_ms()
        for partition in self.all():
            if partition.leading is not None and any(broker_id in partition.replicas for broker_id in changed):
                partition.brokers_changed(now_ms)

    def _host(self, topic: TopicImage, settings: TopicSettings) -> None:
        here = [partition for partition in topic.partitions if self._broker_id in partition.replicas]
        self._forget_unopened(topic.topic_id)
        hosted = self.topics.get(topic.name)
        if hosted is not None:
            self._leave(hosted, here)
        if not here:
            return
        if hosted is None:
            hosted = HostedTopic(topic.name, topic.topic_id)
            self.topics[topic.name] = self.topics_by_id[topic.topic_id] = hosted
        for image in here:
            partition = hosted.partitions.get(image.index)
            if partition is None:
                try:
                    partition = self._open(hosted, image.index, settings)
                except OSError as broken:
                    # For example the disk is full. This partition waits for space; the others continue.
                    logger.error("%s-%d is offline, its log cannot be created: %s", topic.name, image.index, broken)  # noqa: TRY400
                    self.unopened[topic.topic_id, image.index] = image
                    continue
                hosted.partitions[image.index] = partition
            if partition.image is not image:
                self._apply(partition, image)

    def open_again(self, image: ClusterImage) -> None:
        """Retry the partitions whose log could not be created."""
        settings = TopicSettings(image, self._config)
        for topic_id in dict.fromkeys(topic_id for topic_id, _ in self.unopened):
            if topic_id in image.topics_by_id:
                self._host(image.topics_by_id[topic_id], settings)

    def succeed(self, failed: Partition, reopened: Log) -> None:
        """A failed log was reopened. Requests that waited for the old log get an error."""
        invariant(not failed.is_leader, f"{failed} leads while its log is reopened")
        hosted = self.topics_by_id[failed.topic_id]
        self._logs.succeed(failed.log, reopened)
        image, high_watermark, min_isr = failed.image, failed.high_watermark, failed.min_isr_wanted
        failed.deleted(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._follow is not None:
            self._follow(failed)
        partition = hosted.partitions[failed.index] = self._replica(
            hosted, failed.index, reopened, high_watermark, min_isr
        )
        if image is not None:
            self._apply(partition, image)

    def _forget_unopened(self, topic_id: TopicId) -> None:
        for key in [key for key in self.unopened if key[0] == topic_id]:
            del self.unopened[key]

    def _apply(self, partition: Partition, image: PartitionImage) -> None:
        before = partition.leader_id, partition.leader_epoch
        partition.apply(image, self._clock.monotonic_ms())
        if self._follow is not None and before != (partition.leader_id, partition.leader_epoch):
            self._follow(partition)

    def _leave(self, hosted: HostedTopic, here: list[PartitionImage]) -> None:
        """Discard the replicas that were moved to other brokers."""
        staying = {image.index: None for image in here}
        for index in [index for index in hosted.partitions if index not in staying]:
            self._discard(hosted.partitions.pop(index), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not here:
            del self.topics[hosted.name], self.topics_by_id[hosted.topic_id]
            self._forget_traffic(hosted.name)

    def _open(self, topic: HostedTopic, index: int, settings: TopicSettings) -> Partition:
        name = TopicPartition(topic.name, index)
        config, min_isr = settings.of(topic.name)
        log = self._logs.create_log(name, topic.topic_id, config, self._clock.wall_ms())
        return self._replica(topic, index, log, self._logs.high_watermarks.get(name, 0), min_isr)

    def _replica(self, topic: HostedTopic, index: int, log: Log, high_watermark: int, min_isr: int) -> Partition:
        return Partition(
            broker_id=self._broker_id,
            topic=topic.name,
            index=index,
            topic_id=topic.topic_id,
            log=log,
            high_watermark=high_watermark,
            min_isr=min_isr,
            request_sync=self._request_sync,
            brokers=self._brokers,
            propose=self._propose,
            lag_ms_max=self._config.replica_lag_time_max_ms,
            traffic=None if self.traffic is None else self.traffic.of(topic.name),
        )

    def _delete(self, topic: TopicImage) -> None:
        self._forget_unopened(topic.topic_id)
        hosted = self.topics_by_id.pop(topic.topic_id, None)
        if hosted is None:
            return
        del self.topics[topic.name]
        self._forget_traffic(topic.name)
        for partition in hosted.partitions.values():
            self._discard(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _forget_traffic(self, topic: str) -> None:
        if self.traffic is not None:
            self.traffic.forget(topic)

    def _discard(self, partition: Partition, code: ErrorCode) -> None:
        directory = self._logs.mark_deleted(partition.log.topic_partition)
        self._remove_later(directory, partition.log.config.file_delete_delay_ms)
        partition.deleted(code)
        if self._follow is not None:
            self._follow(partition)

    def _configure(self, changed: tuple[ConfigResource, ...], settings: TopicSettings) -> None:
        for hosted in self._concerned(changed):
            config, min_isr = settings.of(hosted.name)
            for partition in hosted.partitions.values():
                partition.configure(config, min_isr)

    def _concerned(self, changed: tuple[ConfigResource, ...]) -> list[HostedTopic]:
        names = [resource.name for resource in changed if resource.type == TOPIC_RESOURCE]
        if len(names) < len(changed):
            # Broker configs are the defaults of every topic.
            names = list(self.topics)
        return [self.topics[name] for name in names if name in self.topics]
