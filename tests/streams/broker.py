"""Topics for tests: filled with JSON, read to their end."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin import Admin


class Topics:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = Admin(bootstrap)

    def create(self, *names: str, partitions: int = 1) -> None:
        for name in names:
            self.cluster.create_topic(name, partitions)

    def send(self, topic: str, *values: Any, key: str | None = None) -> None:
        """Dicts as JSON, text as it is; an entry `key` of a dict is the record's key and not part of it."""
        self.create(topic)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            own_key = value.pop("key", key) if isinstance(value, dict) else key
            producer.produce(topic, json.dumps(value) if isinstance(value, dict) else value, own_key)
        assert producer.flush(60) == 0

    def delete(self, topic: str, key: str) -> None:
        self.send(topic, None, key=key)

    def records(self, topic: str) -> list[Any]:
        """Every record of the topic, partition by partition."""
        ends = self.cluster.end_offsets(topic)
        ours = {"group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **ours})
        found = []
        for partition, end in ends.items():
            consumer.assign([TopicPartition(topic, partition, 0)])
            position = 0
            while position < end:
                record = consumer.poll(60)
                assert record is not None, f"{topic}-{partition} has fewer records than {end}"
                if record.error() is None:
                    found.append(record)
                    position = record.offset() + 1
                else:  # the end: the last offset is that of a transaction's marker
                    position = record.offset()
        consumer.close()
        return found

    def values(self, topic: str) -> list[Any]:
        return [record.value() and json.loads(record.value()) for record in self.records(topic)]

    def keyed(self, topic: str) -> list[tuple[str | None, Any]]:
        return [
            (record.key() and record.key().decode(), record.value() and json.loads(record.value()))
            for record in self.records(topic)
        ]
