"""Topics with known records, for tests of readers."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

Headers = list[tuple[str, bytes | None]]


class Records:
    """Writes records to the topics of one cluster, and deletes them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def put(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        *,
        partition: int = 0,
        key: str | None = None,
        headers: Headers | None = None,
        timestamp_ms: int = 0,
    ) -> None:
        for value in values:
            self._producer.poll(0)
            self._producer.produce(topic, value, key, partition, headers=headers, timestamp=timestamp_ms)
        assert self._producer.flush(60) == 0

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Deletes records at once, as retention would later."""
        place = KafkaPartition(topic, partition, offset)
        self._admin.delete_records([place])[place].result()
