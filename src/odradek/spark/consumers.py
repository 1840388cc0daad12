"""A pool of librdkafka consumers, reused by the tasks of a Python worker: creating one costs more than reading a range.

A task takes its consumer out of the pool, so one process can read several ranges at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from confluent_kafka import Consumer, KafkaError

from odradek.spark.clients import Config
from odradek.spark.offsets import TopicPartition

IDLE_MAX = 4

# By configuration, in order of use: the most recently used consumer is last.
_idle: OrderedDict[frozenset[tuple[str, Any]], RangeConsumer] = OrderedDict()


class RangeConsumer:
    """A consumer, the partition leaders it knows, and the last error of its connections."""

    def __init__(self, config: Config) -> None:
        self.key = frozenset(config.items())
        self.leaders: dict[TopicPartition, tuple[str, int]] = {}
        self.assigned = False
        self.last_error: KafkaError | None = None
        # librdkafka has reported that all brokers are down.
        self.is_deserted = False
        self.kafka = Consumer({**config, "error_cb": self._on_error})

    def _on_error(self, error: KafkaError) -> None:
        self.last_error = error
        self.is_deserted |= error.code() == KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 (librdkafka names its own so)


def take(config: Config) -> RangeConsumer:
    consumer = _idle.pop(frozenset(config.items()), None)
    _close_deserted()
    if consumer is None:
        return RangeConsumer(config)
    consumer.last_error, consumer.is_deserted = None, False
    return consumer


def _close_deserted() -> None:
    """Close consumers of clusters that no longer exist, as after a test: they would try to reconnect forever."""
    for key, consumer in list(_idle.items()):
        consumer.kafka.poll(0)
        if consumer.is_deserted:
            del _idle[key]
            consumer.kafka.close()


def give_back(consumer: RangeConsumer) -> None:
    if consumer.assigned:  # unassign() takes milliseconds even without an assignment
        consumer.kafka.unassign()
        consumer.assigned = False
    if consumer.key in _idle:
        consumer.kafka.close()
        return
    _idle[consumer.key] = consumer
    if len(_idle) > IDLE_MAX:
        _idle.popitem(last=False)[1].kafka.close()
