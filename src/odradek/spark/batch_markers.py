"""The topic of markers: which micro-batch each task of a sink has written last.

Key: the transactional id. Value: JSON with the number of the micro-batch and the id of the query, which Spark keeps in
the checkpoint. The topic is compacted, so it has about one record per task.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from odradek.client.listed_offsets import offset_in
from odradek.spark.clients import CONNECTION, QUIET
from odradek.spark.task_producer import Record

PARTITION = 0
READ_WITHIN_S = 60.0
RETRY_S = 0.1
# librdkafka's admin client says _NOENT for a topic that does not exist, and for one without leaders.
NO_LEADER = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 (librdkafka's own codes have this form)
    KafkaError._NOENT,  # noqa: SLF001
    KafkaError.LEADER_NOT_AVAILABLE,
)


class Marker(msgspec.Struct, frozen=True):
    batch: int
    query_id: str


class MarkersUnreadable(RuntimeError):
    pass


@dataclass(frozen=True, slots=True)
class MarkerTopic:
    name: str

    def record(self, transactional_id: str, marker: Marker) -> Record:
        return self.name, msgspec.json.encode(marker), transactional_id.encode(), PARTITION

    def last(self, config: Mapping[str, str], transactional_id: str) -> Marker | None:
        """Call it when the transactional id has been initialized: from then on no older attempt writes a marker."""
        connection = {**QUIET, **{name: value for name, value in config.items() if name.startswith(CONNECTION)}}
        end = self._end(connection)
        return self._read(connection, transactional_id.encode(), end) if end else None

    def _end(self, connection: Mapping[str, object]) -> int:
        """The high watermark. Creates the topic if it does not exist."""
        admin = AdminClient(dict(connection))
        at = TopicPartition(self.name, PARTITION)
        deadline = time.monotonic() + READ_WITHIN_S
        while True:
            asked = admin.list_offsets(
                {at: OffsetSpec.latest()},
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=READ_WITHIN_S,
            )
            try:
                return offset_in(asked[at].result())
            except KafkaException as unknown:
                if unknown.args[0].code() not in NO_LEADER or time.monotonic() > deadline:
                    raise
            if self._create(admin):
                return 0
            time.sleep(RETRY_S)

    def _create(self, admin: AdminClient) -> bool:
        """False: it exists, and has no leader yet."""
        wanted = NewTopic(self.name, num_partitions=1, replication_factor=-1, config={"cleanup.policy": "compact"})
        try:
            admin.create_topics([wanted])[self.name].result()
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    def _read(self, connection: Mapping[str, object], key: bytes, end: int) -> Marker | None:
        settings = {
            "group.id": "odradek-markers",  # required by librdkafka, and never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
        }
        consumer = Consumer({**connection, **settings})
        found: bytes | None = None
        try:
            consumer.assign([TopicPartition(self.name, PARTITION, OFFSET_BEGINNING)])
            while True:
                message = consumer.poll(READ_WITHIN_S)
                if message is None:
                    raise MarkersUnreadable(f"could not read {self.name} to its end at {end} in {READ_WITHIN_S:.0f} s")
                error = message.error()
                if error is None:
                    found = message.value() if message.key() == key else found
                elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise KafkaException(error)
                # A transaction of another task that is still open may end the readable part earlier.
                elif message.offset() >= end:
                    return None if found is None else msgspec.json.decode(found, type=Marker)
        finally:
            consumer.close()
