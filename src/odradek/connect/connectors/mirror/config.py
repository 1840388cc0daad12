"""The options of the three mirror connectors: MirrorMaker 2's names and meanings.

The connect service runs in the target cluster. Numbers of replicas are the cluster's default, where MirrorMaker 2 has
two or three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from odradek.client.java_names import librdkafka_config
from odradek.client.refused import RefusedConfig
from odradek.connect.connectors.mirror.names import Filter, Names
from odradek.connect.options import at_least, not_empty, option, patterns

CLUSTERS = "Clusters"
NAMES = "Names"
OFFSETS = "Offsets"
NOT_CLIENTS = ("alias", "bootstrap.servers")
# MirrorMaker 2's defaults.
TOPICS_EXCLUDE = [r"mm2.*\.internal", r".*\.replica", r"__.*"]
GROUPS_EXCLUDE = ["console-consumer-.*", "connect-.*", "__.*"]
CONFIGS_EXCLUDE = [
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"log\.message\.timestamp\.before\.max\.ms",
    r"log\.message\.timestamp\.after\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
]


def client_configs(given: Mapping[str, str]) -> str | None:
    """A check of an option: what is wrong with configs of clients, in the names of Java's client."""
    try:
        librdkafka_config({name: text for name, text in given.items() if name not in NOT_CLIENTS})
    except RefusedConfig as refused:
        return f"cannot be used: {refused}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """What all three connectors need: the two clusters, and how topics are named."""

    source_cluster_alias: str = option(
        "The name of the cluster that is mirrored: the prefix of mirrored topics.",
        default="source",
        importance="HIGH",
        check=not_empty,
        group=CLUSTERS,
    )
    target_cluster_alias: str = option(
        "The name of the cluster of this service: topics that came from it are not mirrored back.",
        default="target",
        importance="HIGH",
        check=not_empty,
        group=CLUSTERS,
    )
    source_cluster_bootstrap_servers: str = option(
        "Brokers of the cluster that is mirrored.", importance="HIGH", check=not_empty, group=CLUSTERS
    )
    target_cluster_bootstrap_servers: str = option(
        "Brokers of the cluster of this service.", importance="HIGH", check=not_empty, group=CLUSTERS
    )
    source_cluster: dict[str, str] = option(
        "Configs of all clients of the source cluster, such as source.cluster.security.protocol.",
        default={},
        group=CLUSTERS,
        check=client_configs,
    )
    target_cluster: dict[str, str] = option(
        "Configs of all clients of the target cluster.", default={}, group=CLUSTERS, check=client_configs
    )
    replication_policy_class: Literal[
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "DefaultReplicationPolicy",
        "IdentityReplicationPolicy",
    ] = option(
        "Default: a mirrored topic is ALIAS.topic. Identity: it keeps its name; only one direction may be mirrored.",
        default="org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        group=NAMES,
    )
    replication_policy_separator: str = option(
        "Between the alias and the name of a topic.", default=".", check=not_empty, group=NAMES
    )
    replication_policy_internal_topic_separator_enabled: bool = option(
        "Names of internal topics use the separator, too.", default=True, importance="LOW", group=NAMES
    )

    @property
    def names(self) -> Names:
        has_own = self.replication_policy_internal_topic_separator_enabled
        return Names(
            source=self.source_cluster_alias,
            target=self.target_cluster_alias,
            separator=self.replication_policy_separator,
            internal_separator=self.replication_policy_separator if has_own else ".",
            keeps_names=self.replication_policy_class.endswith("IdentityReplicationPolicy"),
        )

    @property
    def source_clients(self) -> dict[str, str]:
        """In librdkafka's names."""
        return _clients(self.source_cluster)

    @property
    def target_clients(self) -> dict[str, str]:
        return _clients(self.target_cluster)


def _clients(given: Mapping[str, str]) -> dict[str, str]:
    return librdkafka_config({name: text for name, text in given.items() if name not in NOT_CLIENTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncingConfig(MirrorConfig):
    """What the connectors that write or read offset syncs have in common."""

    topics: list[str] = option(
        "Regular expressions of the topics to mirror.", default=[".*"], importance="HIGH", check=patterns
    )
    topics_exclude: list[str] = option(
        "Regular expressions of topics that are left out.", default=TOPICS_EXCLUDE, importance="HIGH", check=patterns
    )
    offset_syncs_topic_location: Literal["source", "target"] = option(
        "The cluster with the topic of offset syncs.",
        default="source",
        name="offset-syncs.topic.location",
        group=OFFSETS,
    )
    offset_syncs_topic_replication_factor: int = option(
        "Replicas of the topic of offset syncs; -1: the cluster's default.",
        default=-1,
        name="offset-syncs.topic.replication.factor",
        check=at_least(-1),
        group=OFFSETS,
    )

    @property
    def topic_filter(self) -> Filter:
        return Filter.of(self.topics, self.topics_exclude)

    @property
    def offset_syncs_topic(self) -> str:
        return self.names.offset_syncs(in_source=self.offset_syncs_topic_location == "source")

    @property
    def offset_syncs_clients(self) -> dict[str, str]:
        """The configs of clients of the cluster that has the topic of offset syncs, with its brokers."""
        if self.offset_syncs_topic_location == "source":
            return {**self.source_clients, "bootstrap.servers": self.source_cluster_bootstrap_servers}
        return {**self.target_clients, "bootstrap.servers": self.target_cluster_bootstrap_servers}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSourceConfig(SyncingConfig):
    config_properties_exclude: list[str] = option(
        "Regular expressions of configs of topics that are not mirrored.", default=CONFIGS_EXCLUDE, check=patterns
    )
    replication_factor: int = option(
        "Replicas of mirrored topics; -1: the cluster's default.", default=-1, check=at_least(-1)
    )
    refresh_topics_enabled: bool = option("Look for new topics and partitions.", default=True)
    refresh_topics_interval_seconds: int = option("How often.", default=600, check=at_least(1))
    sync_topic_configs_enabled: bool = option("Keep the configs of mirrored topics equal.", default=True)
    sync_topic_configs_interval_seconds: int = option("How often.", default=600, check=at_least(1))
    sync_topic_acls_enabled: Literal["false"] = option(
        "Access rules are not mirrored.", default="false", importance="LOW"
    )
    heartbeats_replication_enabled: bool = option(
        "Mirror the heartbeats of the source cluster, whatever `topics` says.", default=True
    )
    emit_offset_syncs_enabled: bool = option(
        "Write offset syncs, which mirror-checkpoints needs.",
        default=True,
        name="emit.offset-syncs.enabled",
        group=OFFSETS,
    )
    offset_lag_max: int = option(
        "How many records a mirrored partition may move before the next offset sync.",
        default=100,
        check=at_least(0),
        group=OFFSETS,
    )
    consumer: dict[str, str] = option("Configs of the consumer.", default={}, group=CLUSTERS, check=client_configs)
    source_consumer: dict[str, str] = option(
        "Configs of the consumer.", default={}, group=CLUSTERS, check=client_configs
    )

    def mirrors(self, topic: str) -> bool:
        names = self.names
        wanted = topic in self.topic_filter or (self.heartbeats_replication_enabled and names.is_heartbeats(topic))
        return wanted and not names.is_internal(topic) and not names.returns(topic)

    @property
    def consumer_clients(self) -> dict[str, str]:
        return librdkafka_config(
            {name: text for name, text in self.source_cluster.items() if name not in NOT_CLIENTS}
            | self.consumer
            | self.source_consumer
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCheckpointConfig(SyncingConfig):
    groups: list[str] = option(
        "Regular expressions of consumer groups.", default=[".*"], importance="HIGH", check=patterns
    )
    groups_exclude: list[str] = option(
        "Regular expressions of groups that are left out.", default=GROUPS_EXCLUDE, importance="HIGH", check=patterns
    )
    refresh_groups_enabled: bool = option("Look for new groups.", default=True)
    refresh_groups_interval_seconds: int = option("How often.", default=600, check=at_least(1))
    emit_checkpoints_enabled: bool = option("Write checkpoints.", default=True, group=OFFSETS)
    emit_checkpoints_interval_seconds: int = option("How often.", default=60, check=at_least(1), group=OFFSETS)
    checkpoints_topic_replication_factor: int = option(
        "Replicas of the topic of checkpoints; -1: the cluster's default.",
        default=-1,
        check=at_least(-1),
        group=OFFSETS,
    )
    sync_group_offsets_enabled: bool = option(
        "Also commit the translated offsets in the target, for groups that have no members there.",
        default=False,
        importance="HIGH",
        group=OFFSETS,
    )
    sync_group_offsets_interval_seconds: int = option("How often.", default=60, check=at_least(1), group=OFFSETS)

    @property
    def group_filter(self) -> Filter:
        return Filter.of(self.groups, self.groups_exclude)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorHeartbeatConfig(MirrorConfig):
    emit_heartbeats_enabled: bool = option("Write heartbeats.", default=True)
    emit_heartbeats_interval_seconds: int = option("How often.", default=1, check=at_least(1))
    heartbeats_topic_replication_factor: int = option(
        "Replicas of the topic of heartbeats; -1: the cluster's default.", default=-1, check=at_least(-1)
    )
