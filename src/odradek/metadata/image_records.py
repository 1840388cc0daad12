"""Converts an image to the records of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.image import BrokerRegistration, ClusterImage, ControllerRegistration, PartitionImage, TopicImage
from odradek.metadata.registrations import written_features, written_listeners
from odradek.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from odradek.protocol.schema import Message


def records_of(image: ClusterImage) -> Iterator[Message]:
    """In the order that a reader needs: features first, topics before their partitions."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partitions:
            yield partition_record(topic, partition)
    for resource, configs in image.configs.items():
        for name, value in configs.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def partition_record(topic: TopicImage, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.recovery,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _broker(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=written_listeners(BrokerEndpoint, broker.listeners),
        features=written_features(BrokerFeature, broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )


def _controller(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        end_points=written_listeners(ControllerEndpoint, controller.listeners),
        features=written_features(ControllerFeature, controller.features),
    )
