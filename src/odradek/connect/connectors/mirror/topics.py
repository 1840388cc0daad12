"""The mirrored topics in the target: created with the source's partitions and configs, and kept equal to them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.client.admin import Admin
from odradek.connect.connectors.mirror.config import MirrorConfig, MirrorSourceConfig
from odradek.connect.connectors.mirror.names import Filter

_log = logging.getLogger("odradek.connect.mirror")

COMPACTED = {"cleanup.policy": "compact"}


def source_admin(config: MirrorConfig) -> Admin:
    return Admin(config.source_cluster_bootstrap_servers, config.source_clients)


def target_admin(config: MirrorConfig) -> Admin:
    return Admin(config.target_cluster_bootstrap_servers, config.target_clients)


def create_compacted(admin: Admin, topic: str, replication_factor: int) -> None:
    """A topic of the mirror itself, if it is missing."""
    admin.create_topic(topic, 1, COMPACTED, replication_factor=replication_factor)


class MirroredTopics:
    def __init__(self, config: MirrorSourceConfig, source: Admin, target: Admin) -> None:
        self._config = config
        self._source = source
        self._target = target
        self._configs = Filter.of([".*"], config.config_properties_exclude)

    def found(self) -> dict[str, int]:
        """The topics to mirror, and their numbers of partitions."""
        counts = self._source.partition_counts()
        return {topic: counts[topic] for topic in sorted(counts) if self._config.mirrors(topic)}

    def ensure(self, wanted: Mapping[str, int]) -> None:
        """Creates missing topics and partitions in the target."""
        names = self._config.names
        known = self._target.partition_counts()
        missing = [topic for topic in wanted if names.remote(topic) not in known]
        configs = self._source.own_topic_configs(missing) if missing else {}
        for topic, count in wanted.items():
            remote = names.remote(topic)
            if remote not in known:
                own = self._mirrored(configs.get(topic, {}))
                self._target.create_topic(remote, count, own, replication_factor=self._config.replication_factor)
                _log.info("created %s with %s partitions", remote, count)
            elif known[remote] < count:
                self._target.add_partitions(remote, count)
                _log.info("%s has %s partitions now", remote, count)

    def sync_configs(self, topics: Mapping[str, int]) -> None:
        """Gives the mirrored topics the configs that the source's topics have themselves, and takes away others."""
        names = self._config.names
        ours = self._source.own_topic_configs(list(topics))
        theirs = self._target.own_topic_configs([names.remote(topic) for topic in topics])
        for topic in topics:
            remote = names.remote(topic)
            if topic not in ours or remote not in theirs:
                continue  # deleted in the meantime
            wanted, present = self._mirrored(ours[topic]), self._mirrored(theirs[remote])
            changes: dict[str, str | None] = {
                name: value for name, value in wanted.items() if present.get(name) != value
            }
            changes |= dict.fromkeys(present.keys() - wanted.keys())
            if changes:
                self._target.set_topic_config(remote, **changes)
                _log.info("changed the configs of %s: %s", remote, changes)

    def _mirrored(self, configs: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in configs.items() if name in self._configs}
