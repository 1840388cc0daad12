"""Which configuration is in force for a topic or broker of an image.

A topic's `TopicConfig` changes when its own ConfigResource does; every topic's and the `BrokerConfig` may change when
a broker's or the nameless broker's does, which stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from odradek.base.errors import KafkaError
from odradek.metadata.configs import effective
from odradek.metadata.configs.broker import BrokerConfig, validate_dynamic_broker_config
from odradek.metadata.configs.effective import BrokerLayers, Described
from odradek.metadata.configs.topic import TopicConfig, validate_topic_config
from odradek.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage


def effective_broker_config(image: ClusterImage, broker: BrokerConfig) -> BrokerConfig:
    return effective.broker_config(broker, _layers(image, broker))


def effective_topic_config(image: ClusterImage, topic: str, broker: BrokerConfig) -> TopicConfig:
    """Also for a topic that does not exist: what it would get."""
    return effective.topic_config(image.config(TOPIC_RESOURCE, topic), _layers(image, broker))


def describe_topic(image: ClusterImage, topic: str, broker: BrokerConfig) -> list[Described]:
    return effective.describe_topic(image.config(TOPIC_RESOURCE, topic), _layers(image, broker))


def describe_new_topic(image: ClusterImage, overrides: Mapping[str, str], broker: BrokerConfig) -> list[Described]:
    """Of a topic that is just being created."""
    return effective.describe_topic(overrides, _layers(image, broker))


def describe_broker(image: ClusterImage, broker: BrokerConfig) -> list[Described]:
    return effective.describe_broker(_layers(image, broker))


def describe_cluster_defaults(image: ClusterImage) -> list[Described]:
    return effective.describe_cluster_defaults(image.config(BROKER_RESOURCE, ""))


def not_honoured(image: ClusterImage) -> Iterator[str]:
    """A sentence for each thing that Kafka was told about its topics and brokers and that means nothing here."""
    for resource, values in image.configs.items():
        if resource.type not in _VALIDATORS:
            continue
        whose, validate = _VALIDATORS[resource.type]
        for name, value in values.items():
            try:
                validate(name, value)
            except KafkaError as refused:
                yield f"{whose} {resource.name or '(all)'} goes without {name}={value}: {refused.message}"


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
