"""The effective configuration of a topic or broker of an image.

A topic's `TopicConfig` changes with its own ConfigResource. A change of a broker's ConfigResource, or of the nameless
one for all brokers, may change every `TopicConfig` and the `BrokerConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from odradek.base.errors import KafkaError
from odradek.metadata.configs import effective
from odradek.metadata.configs.broker import BrokerConfig, validate_dynamic_broker_config
from odradek.metadata.configs.effective import BrokerLayers, Described
from odradek.metadata.configs.topic import TopicConfig, validate_topic_config
from odradek.metadata.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE, ClusterImage


def effective_broker_config(image: ClusterImage, broker: BrokerConfig) -> BrokerConfig:
    return effective.broker_config(broker, _layers(image, broker))


def effective_topic_config(image: ClusterImage, topic: str, broker: BrokerConfig) -> TopicConfig:
    """Also for a topic that does not exist: the config that it would get."""
    return effective.topic_config(image.config(TOPIC_RESOURCE, topic), _layers(image, broker))


def describe_topic(image: ClusterImage, topic: str, broker: BrokerConfig) -> list[Described]:
    return effective.describe_topic(image.config(TOPIC_RESOURCE, topic), _layers(image, broker))


def describe_new_topic(image: ClusterImage, overrides: Mapping[str, str], broker: BrokerConfig) -> list[Described]:
    """The configs of a topic that is being created."""
    return effective.describe_topic(overrides, _layers(image, broker))


def describe_broker(image: ClusterImage, broker: BrokerConfig) -> list[Described]:
    return effective.describe_broker(_layers(image, broker))


def describe_cluster_defaults(image: ClusterImage) -> list[Described]:
    return effective.describe_cluster_defaults(image.config(BROKER_RESOURCE, ""))


def describe_client_metrics(image: ClusterImage, name: str) -> list[Described]:
    """Also of a subscription that does not exist, as in Kafka."""
    return effective.describe_client_metrics(image.config(CLIENT_METRICS_RESOURCE, name))


def not_honoured(image: ClusterImage) -> Iterator[str]:
    """A sentence for each config in a directory of Kafka that has no effect here."""
    for resource, values in image.configs.items():
        if resource.type not in _VALIDATORS:
            continue
        whose, validate = _VALIDATORS[resource.type]
        for name, value in values.items():
            try:
                validate(name, value)
            except KafkaError as refused:
                yield f"{whose} {resource.name or '(all)'} ignores {name}={value}: {refused.message}"


_VALIDATORS: Mapping[int, tuple[str, Callable[[str, str], object]]] = {
    TOPIC_RESOURCE: ("topic", validate_topic_config),
    BROKER_RESOURCE: ("broker", validate_dynamic_broker_config),
}


def _layers(image: ClusterImage, broker: BrokerConfig) -> BrokerLayers:
    return BrokerLayers(
        dynamic_broker=image.config(BROKER_RESOURCE, str(broker.node_id)),
        dynamic_default=image.config(BROKER_RESOURCE, ""),
        static=broker.static,
    )
