"""The cluster as a client may see it: which brokers are alive and where, and partitions in those terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.base.ids import NO_BROKER
from odradek.base.ports import Rng
from odradek.controller.topic_names import INTERNAL_TOPICS
from odradek.metadata.image import BrokerRegistration, ClusterImage, PartitionImage

CLIENT_LISTENER = "PLAINTEXT"


class VisibleBroker(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def visible_brokers(image: ClusterImage, *, fenced_too: bool = False) -> Iterator[VisibleBroker]:
    for broker in image.brokers.values():
        if broker.fenced and not fenced_too:
            continue
        for listener in broker.listeners:
            if listener.name == CLIENT_LISTENER:
                yield VisibleBroker(broker.broker_id, listener.host, listener.port, broker.rack, broker.fenced)


def any_live_broker(image: ClusterImage, rng: Rng) -> int:
    """Told to clients as the controller: every broker takes what is meant for it, and the load is spread."""
    alive = [broker.broker_id for broker in visible_brokers(image)]
    return alive[rng.below(len(alive))] if alive else NO_BROKER


def is_alive(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and _has_client_listener(broker)


def live_leader(image: ClusterImage, partition: PartitionImage) -> int:
    return partition.leader if is_alive(image, partition.leader) else NO_BROKER


def offline_replicas(image: ClusterImage, partition: PartitionImage) -> list[int]:
    return [broker_id for broker_id in partition.replicas if not is_alive(image, broker_id)]


def is_internal(topic: str) -> bool:
    return topic in INTERNAL_TOPICS


def _has_client_listener(broker: BrokerRegistration) -> bool:
    return any(listener.name == CLIENT_LISTENER for listener in broker.listeners)
