"""librdkafka consumers that outlive a task: a Python worker reads many ranges, and a consumer costs more than a range.

A consumer is out of the pool while a task has it, so one process may read several ranges at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from confluent_kafka import Consumer, KafkaError

from odradek.spark.clients import Config
from odradek.spark.offsets import TopicPartition

IDLE_MAX = 4

# By configuration, the one used last at the end.
_idle: OrderedDict[frozenset[tuple[str, Any]], RangeConsumer] = OrderedDict()


class RangeConsumer:
    """A consumer, the leaders it was told of, and what its connections last complained about."""

    def __init__(self, config: Config) -> None:
        self.key = frozenset(config.items())
        self.leaders: dict[TopicPartition, tuple[str, int]] = {}
        self.assigned = False
        self.last_error: KafkaError | None = None
        # No broker can be reached, as far as is known.
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
    """Consumers of clusters that have gone, as between two tests: they would ask for their brokers for ever."""
    for key, consumer in list(_idle.items()):
        consumer.kafka.poll(0)
        if consumer.is_deserted:
            del _idle[key]
            consumer.kafka.close()


def give_back(consumer: RangeConsumer) -> None:
    if consumer.assigned:  # costs milliseconds even when nothing is
        consumer.kafka.unassign()
        consumer.assigned = False
    if consumer.key in _idle:
        consumer.kafka.close()
        return
    _idle[consumer.key] = consumer
    if len(_idle) > IDLE_MAX:
        _idle.popitem(last=False)[1].kafka.close()
