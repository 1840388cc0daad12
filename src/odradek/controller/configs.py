"""Changes configs of topics, brokers and client metrics subscriptions: whole sets (API 33), single keys (API 44).

All changes of a resource succeed or none. The resources of one request are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, Offset
from odradek.base.limits import (
    client_metrics_name_chars_max,
    client_metrics_subscriptions_max,
    config_value_chars_max,
)
from odradek.controller.decision import Decision
from odradek.controller.elections import for_leaderless
from odradek.controller.topic_names import check_topic_name
from odradek.metadata.configs.broker import broker_definition, refuse_read_only, validate_dynamic_broker_config
from odradek.metadata.configs.client_metrics import validate_client_metrics
from odradek.metadata.configs.definition import ConfigType, Definition
from odradek.metadata.configs.topic import TOPIC_CONFIGS, check_together, validate_topic_config
from odradek.metadata.features import has_eligible_leaders
from odradek.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    ConfigResource,
    TopicImage,
)
from odradek.protocol.messages import p33_alter_configs, p44_incremental_alter_configs
from odradek.protocol.metadata_records import ConfigRecord, PartitionChangeRecord
from odradek.protocol.schema import Message

_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


# New values by key; None removes the key.
Changes = dict[str, str | None]


class _Request(NamedTuple):
    resource: ConfigResource
    keys: list[str]
    # From the current values to the changes.
    changes: Callable[[Mapping[str, str]], Changes]


class Outcome(NamedTuple):
    """The outcome for a resource: the same fields in the answers of both APIs."""

    resource: ConfigResource
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class _Room:
    """Limits the number of client metrics subscriptions: a broker matches each new client with all of them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._taken: int | None = None

    def take(self, resource: ConfigResource) -> None:
        if resource.type != CLIENT_METRICS_RESOURCE or resource in self._image.configs:
            return
        if self._taken is None:
            self._taken = len(self._image.client_metrics())
        if self._taken >= client_metrics_subscriptions_max:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"The cluster has {client_metrics_subscriptions_max} client metrics subscriptions already, which is "
                "the limit. Delete one first.",
            )
        self._taken += 1


def alter_configs(
    image: ClusterImage, wanted: Sequence[p33_alter_configs.AlterConfigsResource], *, validate_only: bool = False
) -> Decision[list[Outcome]]:
    """Sets exactly the given keys of each resource; other keys return to their defaults."""
    requests = [_request(resource, partial(_whole_set, resource)) for resource in wanted]
    return _alter(image, requests, validate_only)


def incremental_alter_configs(
    image: ClusterImage,
    wanted: Sequence[p44_incremental_alter_configs.AlterConfigsResource],
    *,
    validate_only: bool = False,
) -> Decision[list[Outcome]]:
    requests = [_request(resource, partial(_single_keys, resource)) for resource in wanted]
    return _alter(image, requests, validate_only)


def _request(
    wanted: p33_alter_configs.AlterConfigsResource | p44_incremental_alter_configs.AlterConfigsResource,
    changes: Callable[[Mapping[str, str]], Changes],
) -> _Request:
    resource = ConfigResource(wanted.resource_type, wanted.resource_name)
    return _Request(resource, [config.name for config in wanted.configs], changes)


def _alter(image: ClusterImage, requests: Sequence[_Request], validate_only: bool) -> Decision[list[Outcome]]:
    times = Counter(request.resource for request in requests)
    records: list[Message] = []
    outcomes: list[Outcome] = []
    told: list[str] = []
    room = _Room(image)
    for request in requests:
        resource = request.resource
        try:
            changed = _records(image, request, times[resource])
            if changed:
                room.take(resource)
        except KafkaError as refused:
            outcomes.append(Outcome(resource, refused.code, refused.message or None))
            continue
        records += changed
        records += other_eligibles(image, changed)
        records += _elections(image, changed)
        outcomes.append(Outcome(resource))
        told += [f"{_called(resource)}: {record.name} is now {record.value or 'its default'}" for record in changed]
    sentence = "; ".join(told)
    if validate_only:
        return Decision(response=outcomes, sentence=sentence and f"only validated: {sentence}")
    return Decision(records=tuple(records), response=outcomes, sentence=sentence)


def _records(image: ClusterImage, request: _Request, times: int) -> list[ConfigRecord]:
    refuse_repeated(times)
    refuse_duplicates(request.keys)
    resource = request.resource
    _check_name(resource)
    now = image.configs.get(resource, {})
    changes = request.changes(now)
    if resource.type == BROKER_RESOURCE:
        refuse_read_only(name for name, value in changes.items() if value is not None)
    for name, value in changes.items():
        if value is not None:
            _check_value(resource, name, value)
    _check_exists(image, resource)
    _check_min_isr(image, resource, changes)
    following = {name: value for name, value in {**now, **changes}.items() if value is not None}
    if resource.type == TOPIC_RESOURCE:
        check_together(following)
    elif resource.type == CLIENT_METRICS_RESOURCE:
        validate_client_metrics(resource.name, following)
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in changes.items()
        # A broker's value is written even if it is unchanged: brokers then read files that it names again.
        if now.get(name) != value or resource.type == BROKER_RESOURCE
    ]


def _whole_set(wanted: p33_alter_configs.AlterConfigsResource, now: Mapping[str, str]) -> Changes:
    refuse_nulls([config.name for config in wanted.configs if config.value is None])
    changes: Changes = {config.name: config.value for config in wanted.configs}
    return changes | {name: None for name in now if name not in changes}


def _single_keys(wanted: p44_incremental_alter_configs.AlterConfigsResource, now: Mapping[str, str]) -> Changes:
    refuse_nulls(keys_without_value(wanted))
    changes: Changes = {}
    for config in wanted.configs:
        value = config.value or ""
        match config.config_operation:
            case Operation.SET:
                changes[config.name] = value
            case Operation.DELETE:
                changes[config.name] = None
            case Operation.APPEND | Operation.SUBTRACT as operation:
                words = _words(wanted.resource_type, config.name, now, Operation(operation))
                named = value.split(",")
                if operation == Operation.APPEND:
                    words += [word for word in named if word not in words]
                else:
                    words = [word for word in words if word not in named]
                changes[config.name] = ",".join(words)
            case unknown:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown}")
    return changes


def keys_without_value(wanted: p44_incremental_alter_configs.AlterConfigsResource) -> list[str]:
    return [c.name for c in wanted.configs if c.value is None and c.config_operation != Operation.DELETE]


def _words(resource_type: int, name: str, now: Mapping[str, str], operation: Operation) -> list[str]:
    definition = _definition(resource_type, name)
    if definition is None or definition.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Can't {operation.name} to key {name} because its type is not LIST."
        )
    value = now.get(name) or definition.write(definition.default) or ""
    return [word for word in value.split(",") if word]


def _definition(resource_type: int, name: str) -> Definition | None:
    if resource_type == CLIENT_METRICS_RESOURCE:
        return None  # Kafka appends to no list of a subscription
    return TOPIC_CONFIGS.get(name) if resource_type == TOPIC_RESOURCE else broker_definition(name)


def refuse_repeated(times: int) -> None:
    """`times`: how often a request names a resource."""
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def refuse_duplicates(keys: list[str]) -> None:
    if len(dict.fromkeys(keys)) != len(keys):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def refuse_nulls(names: list[str]) -> None:
    if names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(names)}")


def _check_name(resource: ConfigResource) -> None:
    if resource.type == TOPIC_RESOURCE:
        if not resource.name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(resource.name)
    elif resource.type == CLIENT_METRICS_RESOURCE:
        if len(resource.name) > client_metrics_name_chars_max:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The name of a client metrics subscription has at most {client_metrics_name_chars_max} characters.",
            )
    elif resource.type != BROKER_RESOURCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}")
    elif resource.name and not (resource.name.isascii() and resource.name.isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")


def _check_value(resource: ConfigResource, name: str, value: str) -> None:
    if len(value) > config_value_chars_max:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{config_value_chars_max} bytes.",
        )
    if resource.type == TOPIC_RESOURCE:
        validate_topic_config(name, value)
    elif resource.type == BROKER_RESOURCE:
        validate_dynamic_broker_config(name, value)


def _check_min_isr(image: ClusterImage, resource: ConfigResource, changes: Changes) -> None:
    """min.insync.replicas decides who is eligible to lead: controller and leaders must use the same value (KIP-966)."""
    if _MIN_ISR not in changes or resource.type != BROKER_RESOURCE or not has_eligible_leaders(image):
        return
    if resource.name:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Broker-level {_MIN_ISR} cannot be altered while ELR is enabled.")
    if changes[_MIN_ISR] is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Cluster-level {_MIN_ISR} cannot be removed while ELR is enabled.")


def other_eligibles(image: ClusterImage, changed: Sequence[ConfigRecord]) -> list[Message]:
    """After a change of min.insync.replicas: clears the ELR, and starts a new partition epoch.

    The new epoch makes leaders learn the new value before they propose an ISR. It is needed even if the ELR is empty. A
    partition without a leader acknowledges nothing, so its ELR stays.
    """
    if not has_eligible_leaders(image):
        return []
    return [
        PartitionChangeRecord(
            partition_id=partition.index,
            topic_id=topic.topic_id,
            eligible_leader_replicas=[] if partition.elr else None,
        )
        for record in changed
        if record.name == _MIN_ISR
        for topic in _topics_concerned(image, record)
        for partition in topic.partitions
        if partition.leader != NO_BROKER and len(partition.replicas) > 1
    ]


def _elections(image: ClusterImage, changed: Sequence[ConfigRecord]) -> list[PartitionChangeRecord]:
    """When unclean elections become allowed, partitions without a leader get one at once."""
    if not any(record.name == _UNCLEAN and record.value is not None for record in changed):
        return []
    following, _ = image.replay(changed, Offset(image.offset + len(changed)), image.epoch)
    return for_leaderless(following)


def _topics_concerned(image: ClusterImage, record: ConfigRecord) -> list[TopicImage]:
    if record.resource_type == TOPIC_RESOURCE:
        return [image.topics[record.resource_name]]
    return [topic for topic in image.topics.values() if _MIN_ISR not in image.config(TOPIC_RESOURCE, topic.name)]


def _check_exists(image: ClusterImage, resource: ConfigResource) -> None:
    if resource.type == TOPIC_RESOURCE and resource.name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    if resource.type == BROKER_RESOURCE and resource.name and int(resource.name) not in image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {resource.name} found.")


def _called(resource: ConfigResource) -> str:
    if resource.type == TOPIC_RESOURCE:
        return f"topic {resource.name}"
    if resource.type == CLIENT_METRICS_RESOURCE:
        return f"client metrics {resource.name}"
    return f"broker {resource.name}" if resource.name else "all brokers"
