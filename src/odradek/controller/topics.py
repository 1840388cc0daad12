"""Creates and deletes topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID, TopicId, random_uuid
from odradek.base.limits import metadata_records_per_decision_max, topic_name_chars_max
from odradek.base.ports import Rng
from odradek.controller.decision import Decision
from odradek.controller.placement import check_assignment, new_partition, place
from odradek.controller.topic_names import check_new_topic_name
from odradek.metadata.configs.topic import check_together, validate_topic_config
from odradek.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage, collision_key
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreatableTopicResult
from odradek.protocol.messages.p20_delete_topics import DeletableTopicResult, DeleteTopicState
from odradek.protocol.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from odradek.protocol.schema import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """The meaning of -1 in a request."""

    partitions: int = 1
    replication_factor: int = 1


def create_topics(
    image: ClusterImage,
    wanted: Sequence[CreatableTopic],
    *,
    defaults: TopicDefaults,
    rng: Rng,
    validate_only: bool = False,
) -> Decision[list[CreatableTopicResult]]:
    """One result per distinct name, in the order of the request. The caller fills in `configs` of the results."""
    times = Counter(topic.name for topic in wanted)
    _check_total_partitions(wanted, defaults)
    records: list[Message] = []
    results: dict[str, CreatableTopicResult] = {}
    told: list[str] = []
    taken: dict[str, str] = {}
    for topic in wanted:
        if topic.name in results:
            continue
        try:
            check_named_once(topic.name, times)
            check_new_topic_name(image, topic.name)
            _check_collision(topic.name, taken)
            created, topic_records = _create_topic(image, topic, defaults, rng)
        except KafkaError as refused:
            results[topic.name] = CreatableTopicResult(
                name=topic.name, error_code=refused.code, error_message=refused.message or None
            )
            told.append(f"refused topic {topic.name[:topic_name_chars_max]!r}: {refused.code.name}")
            continue
        taken[collision_key(topic.name)] = topic.name
        records += topic_records
        results[topic.name] = _created(created)
        told.append(f"created topic {topic.name} with {len(created.partitions)} partition(s)")
    sentence = "; ".join(told)
    if validate_only:
        return Decision(response=list(results.values()), sentence=f"only validated: {sentence}")
    return Decision(records=tuple(records), response=list(results.values()), sentence=sentence)


def check_named_once(name: str, times: Mapping[str, int]) -> None:
    if times[name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def _check_total_partitions(wanted: Sequence[CreatableTopic], defaults: TopicDefaults) -> None:
    """Checked before any record is built: a request may name 2**31 partitions."""
    total = sum(
        len(topic.assignments) or (defaults.partitions if topic.num_partitions == -1 else max(0, topic.num_partitions))
        for topic in wanted
    )
    if total > metadata_records_per_decision_max:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"Excessively large number of partitions per request: {total} were asked for."
        )


def _check_collision(name: str, taken: Mapping[str, str]) -> None:
    """Checks against topics of the same request; existing topics were checked before."""
    other = taken.get(collision_key(name))
    if other is not None and ("." in name or "_" in name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _create_topic(
    image: ClusterImage, topic: CreatableTopic, defaults: TopicDefaults, rng: Rng
) -> tuple[TopicImage, list[Message]]:
    configs = _checked_configs(topic)
    partitions = _assigned(image, topic) if topic.assignments else _placed(image, topic, defaults, rng)
    topic_id = TopicId(random_uuid(rng))
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id), *configs]
    records += [partition_record(topic_id, partition) for partition in partitions]
    return TopicImage(name=topic.name, topic_id=topic_id, partitions=tuple(partitions)), records


def _checked_configs(topic: CreatableTopic) -> list[ConfigRecord]:
    missing = [config.name for config in topic.configs if config.value is None]
    if missing:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
    for config in topic.configs:
        validate_topic_config(config.name, config.value)
    values = {config.name: config.value for config in topic.configs if config.value is not None}
    check_together(values)
    return [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in values.items()
    ]


def _assigned(image: ClusterImage, topic: CreatableTopic) -> list[PartitionImage]:
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        field = "replication factor" if topic.replication_factor != -1 else "numPartitions"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"A manual partition assignment was specified, but {field} was not set to -1."
        )
    partitions: dict[int, PartitionImage] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in partitions:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        replicas = check_assignment(image, assignment.broker_ids, replication_factor)
        replication_factor = len(replicas)
        partitions[index] = new_partition(image, index, replicas)
    if sorted(partitions) != list(range(len(partitions))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [partitions[index] for index in sorted(partitions)]


def _placed(image: ClusterImage, topic: CreatableTopic, defaults: TopicDefaults, rng: Rng) -> list[PartitionImage]:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    count = defaults.partitions if topic.num_partitions == -1 else topic.num_partitions
    replicas = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    return place(image, 0, count, replicas, rng)


def partition_record(topic_id: TopicId, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
    )


def _created(topic: TopicImage) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
    )


def delete_topics(
    image: ClusterImage, wanted: Sequence[DeleteTopicState], *, enabled: bool = True
) -> Decision[list[DeletableTopicResult]]:
    """Deletes by name or by id, one result per entry. The caller checks permissions."""
    if not enabled:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled: delete.topic.enable is false.")
    resolved = [image.topics_by_id.get(t.topic_id) if t.name is None else image.topics.get(t.name) for t in wanted]
    times = Counter(topic.topic_id for topic in resolved if topic is not None)
    records: list[Message] = []
    results: list[DeletableTopicResult] = []
    told: list[str] = []
    for state, topic in zip(wanted, resolved, strict=True):
        try:
            removed = _deletable(state, topic, times)
        except KafkaError as refused:
            results.append(
                DeletableTopicResult(
                    name=state.name,
                    topic_id=state.topic_id,
                    error_code=refused.code,
                    error_message=refused.message or None,
                )
            )
            continue
        records.append(RemoveTopicRecord(topic_id=removed.topic_id))
        results.append(DeletableTopicResult(name=removed.name, topic_id=removed.topic_id, error_message=None))
        told.append(f"deleted topic {removed.name}")
    return Decision(records=tuple(records), response=results, sentence="; ".join(told))


def _deletable(state: DeleteTopicState, topic: TopicImage | None, times: Mapping[TopicId, int]) -> TopicImage:
    by_id = state.topic_id != ZERO_UUID
    if state.name is None and not by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if state.name is not None and by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if times[topic.topic_id] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if by_id else 'name'}.")
    return topic
