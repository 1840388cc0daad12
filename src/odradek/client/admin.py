"""Admin calls to a cluster: topics, configs, offsets, groups and their committed offsets.

A thin layer over librdkafka's admin client. Returns plain values; errors name the request and the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from odradek.client.configuring import addresses_of
from odradek.client.listed_offsets import offset_in
from odradek.client.records import ClientError

REQUEST_TIMEOUT_S = 30.0
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    instance_id: str  # empty for a dynamic member
    client_id: str
    host: str
    places: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    state: str  # librdkafka's name, such as STABLE; DEAD for a group that does not exist
    assignor: str
    coordinator: int
    members: Sequence[GroupMember]


class UnknownTopic(Exception):
    def __init__(self, topic: str, bootstrap: str) -> None:
        self.topic = topic
        super().__init__(
            f'topic "{topic}" does not exist on {bootstrap}. List topics with: odradek topic ls -b {bootstrap}'
        )


class Admin:
    """Admin calls to a Kafka cluster. `config` takes librdkafka's names (see java_names for Java's)."""

    def __init__(
        self, bootstrap: str | None = None, config: Mapping[str, str] = NOTHING, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self.bootstrap = addresses_of(bootstrap)
        self.config = config
        self._timeout_s = timeout_s
        # librdkafka need not log unreachable brokers: the call that needed the broker raises the error.
        quiet = {"log_level": "0"}
        self._admin = AdminClient({**quiet, **config, "bootstrap.servers": self.bootstrap})

    def topics(self, include_internal: bool = False) -> list[str]:
        with self._told("listing topics"):
            known = self._admin.list_topics(timeout=self._timeout_s).topics
        return sorted(name for name in known if include_internal or not name.startswith("__"))

    def partitions(self, topic: str) -> list[int]:
        with self._told(f"describing topic {topic!r}"):
            # Lists all topics: a request for one topic would create it if the broker creates topics automatically.
            known = self._admin.list_topics(timeout=self._timeout_s).topics
        if topic not in known:
            raise UnknownTopic(topic, self.bootstrap)
        return sorted(known[topic].partitions)

    def partition_counts(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        with self._told("listing topics"):
            known = self._admin.list_topics(timeout=self._timeout_s).topics
        return {name: len(topic.partitions) for name, topic in known.items()}

    def topic_id(self, topic: str) -> str | None:
        """None if the topic does not exist. A topic that is deleted and created again gets a new id."""
        with self._told(f"describing topic {topic!r}", unless=KafkaError.UNKNOWN_TOPIC_OR_PART) as answer:
            asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_s)
            found = str(asked[topic].result().topic_id)
        return None if answer.ignored else found

    def topic_config(self, topic: str) -> dict[str, str]:
        """Empty if the client is not authorized."""
        asked, found = ConfigResource(ConfigResource.Type.TOPIC, topic), {}
        with self._told(f"describing the config of {topic!r}", unless=KafkaError.TOPIC_AUTHORIZATION_FAILED):
            found = self._admin.describe_configs([asked], request_timeout=self._timeout_s)[asked].result()
        return {name: entry.value for name, entry in found.items()}

    def own_topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The configs that are set for each topic itself, without defaults. Leaves out topics that do not exist."""
        asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        answers = self._admin.describe_configs(asked, request_timeout=self._timeout_s) if asked else {}
        found: dict[str, dict[str, str]] = {}
        for topic, answer in answers.items():
            with self._told(f"describing the config of {topic.name!r}", unless=KafkaError.UNKNOWN_TOPIC_OR_PART):
                own = answer.result().items()
                found[topic.name] = {
                    name: entry.value for name, entry in own if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
                }
        return found

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        config: Mapping[str, str] = NOTHING,
        *,
        replication_factor: int = -1,
        if_missing: bool = True,
    ) -> bool:
        """Returns False if the topic exists already. -1 partitions or replicas: the broker's default."""
        wanted = NewTopic(name, partitions, replication_factor=replication_factor, config=dict(config))
        with self._told(
            f"creating topic {name!r}", unless=KafkaError.TOPIC_ALREADY_EXISTS if if_missing else None
        ) as done:
            self._admin.create_topics([wanted], request_timeout=self._timeout_s)[name].result()
        return not done.ignored

    def delete_topics(self, names: Iterable[str]) -> None:
        """Ignores topics that do not exist."""
        wanted = list(names)
        deletions = self._admin.delete_topics(wanted, request_timeout=self._timeout_s) if wanted else {}
        for name, deletion in deletions.items():
            with self._told(f"deleting topic {name!r}", unless=KafkaError.UNKNOWN_TOPIC_OR_PART):
                deletion.result()

    def add_partitions(self, topic: str, total: int) -> None:
        """Afterwards a key may map to another partition."""
        with self._told(f"growing topic {topic!r} to {total} partitions"):
            self._admin.create_partitions([NewPartitions(topic, total)], request_timeout=self._timeout_s)[
                topic
            ].result()

    def set_topic_config(self, topic: str, **changes: str | None) -> None:
        """Changes only these configs. Names have underscores for dots; None removes the topic's own value."""
        entries = [
            ConfigEntry(
                name.replace("_", "."),
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        with self._told(f"changing the config of {topic!r}"):
            self._admin.incremental_alter_configs([wanted], request_timeout=self._timeout_s)[wanted].result()

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Deletes the records before these offsets (-1: all records). Returns each partition's new start offset."""
        asked = [TopicPartition(topic, index, offset) for (topic, index), offset in before.items()]
        with self._told("deleting records"):
            answers = self._admin.delete_records(asked, request_timeout=self._timeout_s)
            return {(tp.topic, tp.partition): answer.result().low_watermark for tp, answer in answers.items()}

    def cluster_id(self) -> str:
        with self._told("describing the cluster"):
            return str(self._admin.list_topics(timeout=self._timeout_s).cluster_id)

    def start_offsets(self, topic: str) -> dict[int, int]:
        return self._offsets(topic, OffsetSpec.earliest())

    def end_offsets(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        """The high watermarks. `committed`: the last stable offsets, up to which readers with read_committed read."""
        return self._offsets(topic, OffsetSpec.latest(), committed=committed)

    def ends_of(self, places: Iterable[tuple[str, int]], *, only_committed: bool = False) -> dict[tuple[str, int], int]:
        """The end offsets of partitions of several topics, in one request to each broker. Leaves out deleted topics.

        `only_committed`: the last stable offsets, before which all transactions have ended.
        """
        level = IsolationLevel.READ_COMMITTED if only_committed else IsolationLevel.READ_UNCOMMITTED
        return self._offsets_of(places, OffsetSpec.latest(), "end offsets", level)

    def starts_of(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return self._offsets_of(places, OffsetSpec.earliest(), "start offsets")

    def offsets_at(self, places: Iterable[tuple[str, int]], at_ms: int) -> dict[tuple[str, int], int]:
        """The first offsets with this timestamp or a later one; -1 where there is none."""
        return self._offsets_of(places, OffsetSpec.for_timestamp(at_ms), f"offsets at {at_ms}")

    def _offsets_of(
        self,
        places: Iterable[tuple[str, int]],
        spec: OffsetSpec,
        what: str,
        level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[tuple[str, int], int]:
        asked = {TopicPartition(topic, index): spec for topic, index in places}
        options = {"isolation_level": level, "request_timeout": self._timeout_s}
        answers = self._admin.list_offsets(asked, **options) if asked else {}
        found = {}
        for place, answer in answers.items():
            with self._told(f"asking for {what}", unless=KafkaError.UNKNOWN_TOPIC_OR_PART):
                found[place.topic, place.partition] = offset_in(answer.result())
        return found

    def _offsets(self, topic: str, spec: OffsetSpec, *, committed: bool = False) -> dict[int, int]:
        asked = {TopicPartition(topic, index): spec for index in self.partitions(topic)}
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        with self._told(f"asking for the offsets of {topic!r}"):
            answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=self._timeout_s)
            return {place.partition: offset_in(answer.result()) for place, answer in answers.items()}

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The group's committed offset of each partition; empty for a group that never committed."""
        return {place: offset for place, (offset, _) in self.committed_with_metadata(group).items()}

    def committed_with_metadata(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """The same, each with the text that the group committed with it."""
        with self._told(f"asking what group {group!r} committed"):
            asked = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=self._timeout_s
            )
            places = asked[group].result().topic_partitions
        return {
            (place.topic, place.partition): (place.offset, place.metadata or "")
            for place in places
            if place.offset >= 0
        }

    def set_committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Sets the group's committed offsets. The group must have no members."""
        places = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
        with self._told(f"setting the offsets of group {group!r}"):
            asked = [ConsumerGroupTopicPartitions(group, places)]
            told = self._admin.alter_consumer_group_offsets(asked, request_timeout=self._timeout_s)[group].result()
            for place in told.topic_partitions:
                if place.error is not None:
                    raise KafkaException(place.error)

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """The number of records after the committed offset of each partition."""
        committed = self.committed(group)
        ends = {topic: self.end_offsets(topic) for topic in {topic for topic, _ in committed}}
        return {
            (topic, index): max(ends[topic][index] - offset, 0)
            for (topic, index), offset in committed.items()
            if index in ends[topic]
        }

    def groups(self, prefix: str = "") -> list[str]:
        with self._told("listing groups"):
            answer = self._admin.list_consumer_groups(request_timeout=self._timeout_s).result()
        for error in answer.errors:
            raise ClientError(f"listing groups on {self.bootstrap}", error)
        return sorted(group.group_id for group in answer.valid if group.group_id.startswith(prefix))

    def group_members(self, group: str) -> list[tuple[str, list[tuple[str, int]]]]:
        """The client id of each member of a classic group, and its partitions."""
        with self._told(f"describing group {group!r}"):
            found = self._admin.describe_consumer_groups([group], request_timeout=self._timeout_s)[group].result()
        return [
            (member.client_id, [(place.topic, place.partition) for place in member.assignment.topic_partitions])
            for member in found.members
        ]

    def group(self, group: str) -> GroupState:
        with self._told(f"describing group {group!r}"):
            found = self._admin.describe_consumer_groups([group], request_timeout=self._timeout_s)[group].result()
        members = [
            GroupMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id or "",
                client_id=member.client_id,
                host=member.host.removeprefix("/"),
                places=sorted((place.topic, place.partition) for place in member.assignment.topic_partitions),
            )
            for member in found.members
        ]
        return GroupState(
            state=found.state.name,
            assignor=found.partition_assignor,
            coordinator=found.coordinator.id if found.coordinator else -1,
            members=members,
        )

    def delete_group(self, group: str) -> None:
        """Ignores a group that does not exist. A group with members is an error."""
        with self._told(f"deleting group {group!r}", unless=KafkaError.GROUP_ID_NOT_FOUND):
            self._admin.delete_consumer_groups([group], request_timeout=self._timeout_s)[group].result()

    @contextmanager
    def _told(self, asked: str, unless: int | None = None) -> Iterator[_Answer]:
        answer = _Answer()
        try:
            yield answer
        except KafkaException as refused:
            error: Any = refused.args[0]
            if error.code() != unless:
                raise ClientError(f"{asked} on {self.bootstrap}", error) from None
            answer.ignored = True


class _Answer:
    ignored = False
