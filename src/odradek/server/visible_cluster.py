"""The cluster as a client may see it: the live brokers, their addresses, and partitions in those terms.

`listener` is the name of the listener that the request came to: a client gets addresses of listeners of the same name,
as it may not reach others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from odradek.base.ids import NO_BROKER, BrokerId
from odradek.base.ports import Rng
from odradek.controller.topic_names import INTERNAL_TOPICS
from odradek.metadata.image import ClusterImage, PartitionImage


class VisibleBroker(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def visible_brokers(image: ClusterImage, listener: str, *, fenced_too: bool = False) -> Iterator[VisibleBroker]:
    for broker in image.brokers.values():
        if broker.fenced and not fenced_too:
            continue
        for each in broker.listeners:
            if each.name == listener:
                yield VisibleBroker(broker.broker_id, each.host, each.port, broker.rack, broker.fenced)


def acting_controller(image: ClusterImage, listener: str, here: int, rng: Rng) -> int:
    """The broker that clients see as the controller: every broker accepts requests for the controller.

    The answering broker is certainly alive; what it knows of the others may be old, if the majority was lost since. A
    broker that is fenced or leaving names another.
    """
    alive = [broker.broker_id for broker in visible_brokers(image, listener)]
    staying = [each for each in alive if not image.brokers[BrokerId(each)].in_controlled_shutdown] or alive
    if here in staying:
        return here
    return staying[rng.below(len(staying))] if staying else NO_BROKER


def live_broker_ids(image: ClusterImage, listener: str) -> dict[int, None]:
    """Call it once per answer, as an answer may be about thousands of partitions."""
    return dict.fromkeys(broker.broker_id for broker in visible_brokers(image, listener))


def offline_replicas(live: Mapping[int, None], partition: PartitionImage) -> list[int]:
    return [broker_id for broker_id in partition.replicas if broker_id not in live]


def is_internal(topic: str) -> bool:
    return topic in INTERNAL_TOPICS
