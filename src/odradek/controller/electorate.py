"""Which brokers may lead partitions, and the election rules of topics, for all partitions of one decision."""

from __future__ import annotations

from odradek.base.ids import NO_BROKER, ZERO_UUID, BrokerId, DirectoryId
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.in_force import effective_topic_config
from odradek.metadata.configs.topic import TopicConfig
from odradek.metadata.features import has_eligible_leaders
from odradek.metadata.image import TOPIC_RESOURCE, UNASSIGNED_DIRECTORY, ClusterImage, PartitionImage, TopicImage


class Electorate:
    """Eligibility in one image. `config` is the active controller's own; it has the lowest precedence for topic rules.

    `arriving` counts as unfenced though it is fenced in the image; `leaving` counts as gone though it is active.
    """

    def __init__(
        self,
        image: ClusterImage,
        config: BrokerConfig,
        *,
        arriving: BrokerId = NO_BROKER,
        leaving: BrokerId = NO_BROKER,
    ) -> None:
        self._image = image
        self._config = config
        self._arriving = arriving
        self._leaving = leaving
        self._known: dict[str, TopicConfig] = {}
        # The rules of all topics without configs of their own.
        self._common: TopicConfig | None = None
        # KIP-966: replicas that left an ISR below min.insync.replicas may still lead.
        self.has_eligible_leaders = has_eligible_leaders(image)

    def may_lead(self, partition: PartitionImage, broker_id: BrokerId, moved_to: DirectoryId | None = None) -> bool:
        """Whether the broker is alive and has the replica's disk. Does not check that the replica has all data."""
        broker = self._image.brokers.get(broker_id)
        if broker is None or broker_id == self._leaving:
            return False
        if broker.in_controlled_shutdown or (broker.fenced and broker_id != self._arriving):
            return False
        directory = moved_to or directory_of(partition, broker_id)
        return directory is None or not broker.directories or directory in broker.directories

    def min_isr(self, topic: TopicImage) -> int:
        return self._rules(topic).min_insync_replicas

    def allows_unclean(self, topic: TopicImage) -> bool:
        return self._rules(topic).unclean_leader_election_enable

    def _rules(self, topic: TopicImage) -> TopicConfig:
        known = self._known.get(topic.name)
        if known is None:
            known = self._known[topic.name] = self._found(topic)
        return known

    def _found(self, topic: TopicImage) -> TopicConfig:
        if self._image.config(TOPIC_RESOURCE, topic.name):
            return effective_topic_config(self._image, topic.name, self._config)
        if self._common is None:
            self._common = effective_topic_config(self._image, topic.name, self._config)
        return self._common


def directory_of(partition: PartitionImage, broker_id: BrokerId) -> DirectoryId | None:
    """The replica's directory; None if its broker has not reported one."""
    if broker_id not in partition.replicas or len(partition.directories) != len(partition.replicas):
        return None
    directory = partition.directories[partition.replicas.index(broker_id)]
    return None if directory in (UNASSIGNED_DIRECTORY, ZERO_UUID) else directory
