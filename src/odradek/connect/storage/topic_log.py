"""A compacted topic as a log of entries: read from the beginning, followed to its end, and appended to.

Not thread-safe: one thread owns it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from odradek.client.admin import Admin, UnknownTopic
from odradek.client.configuring import client_logger
from odradek.client.records import ClientError

CATCH_UP_S = 30.0
POLL_S = 0.05
FORGET_S = 1.0
MESSAGES_MAX = 1_000

# What brokers answer about a new topic until they have read its creation.
NOT_KNOWN_YET = {"UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    topic: str
    key: bytes
    value: bytes | None


class StorageFailed(Exception):
    """The topic cannot be read or written."""


class NotAllowed(StorageFailed):
    """Another service may be active, so this one does not write."""


class TopicLog:
    """Calls `apply` for every entry, in the order of each partition. Creates the topic if it is missing."""

    def __init__(
        self,
        admin: Admin,
        topic: str,
        partitions: int,
        config: Mapping[str, str],
        apply: Callable[[Entry], None],
        *,
        replication_factor: int = -1,
        may_append: Callable[[], bool] = lambda: True,
    ) -> None:
        self.topic = topic
        self._may_append = may_append
        self._admin = admin
        self._apply = apply
        admin.create_topic(topic, partitions, {"cleanup.policy": "compact"}, replication_factor=replication_factor)
        self._check_policy(self._once_known(admin.topic_config).get("cleanup.policy", "compact"))
        common = {"bootstrap.servers": admin.bootstrap, **config}
        self._producer = Producer(
            {**common, "enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 0},
            logger=client_logger(),
        )
        self._consumer = Consumer(
            {
                **common,
                "group.id": f"{topic}-reader",  # librdkafka requires one; nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
                # Says how far the log was read when its last offsets are transaction markers or compacted.
                "enable.partition.eof": True,
            },
            logger=client_logger(),
        )
        self._next = dict.fromkeys(self._once_known(admin.partitions), 0)
        self._consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in self._next])

    def _once_known(self, asked: Callable[[str], T]) -> T:
        """The answer of a broker about the topic. For a moment after the creation, other brokers do not know it."""
        deadline = time.monotonic() + CATCH_UP_S
        while True:
            try:
                return asked(self.topic)
            except (ClientError, UnknownTopic) as refused:
                is_new = isinstance(refused, UnknownTopic) or refused.name in NOT_KNOWN_YET
                if not is_new or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_S)

    def _check_policy(self, policy: str) -> None:
        if policy != "compact":
            raise StorageFailed(
                f'topic "{self.topic}" has cleanup.policy={policy}: old configs or offsets would be deleted. '
                f"Change it with: odradek config set topic {self.topic} cleanup.policy=compact"
            )

    def follow(self) -> int:
        """Applies the entries that have arrived. Returns their number."""
        count = 0
        while messages := self._consumer.consume(MESSAGES_MAX, 0):
            count += sum(map(self._taken, messages))
        return count

    def catch_up(self) -> None:
        """Applies every entry that was in the topic when this was called. Raises StorageFailed."""
        try:
            ends = self._once_known(self._admin.end_offsets)
        except (ClientError, UnknownTopic) as refused:
            raise StorageFailed(f'reading topic "{self.topic}": {refused}') from refused
        deadline = time.monotonic() + CATCH_UP_S
        while any(self._next[index] < end for index, end in ends.items()):
            if time.monotonic() > deadline:
                raise StorageFailed(f'topic "{self.topic}" could not be read to its end within {CATCH_UP_S:.0f} s')
            message = self._consumer.poll(POLL_S)
            if message is not None:
                self._taken(message)
                self.follow()

    def _taken(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (librdkafka's own codes have this form)
                self._next[message.partition()] = max(self._next[message.partition()], message.offset())
            elif error.fatal():
                raise StorageFailed(f'reading topic "{self.topic}": {error.str()}')
            return False
        self._next[message.partition()] = message.offset() + 1
        if message.key() is None:
            return False
        self._apply(Entry(self.topic, message.key(), message.value()))
        return True

    def append(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Returns when the entries are stored, and applied here. Raises StorageFailed.

        `may_append` is asked here, after all that a caller may have waited for.
        """
        if not self._may_append():
            raise NotAllowed(f'topic "{self.topic}" was not written: another service of the group may be active')
        failed: list[KafkaError] = []
        for key, value in entries:
            try:
                self._producer.produce(
                    self.topic, value, key, on_delivery=lambda error, _: failed.append(error) if error else None
                )
            except (KafkaException, BufferError) as refused:
                self._forget_unstored()
                raise StorageFailed(f'writing to topic "{self.topic}": {refused}') from refused
        left = self._producer.flush(CATCH_UP_S)
        why = failed[0].str() if failed else f"no acknowledgement within {CATCH_UP_S:.0f} s"
        if left:
            self._forget_unstored()
        if failed or left:
            raise StorageFailed(f'writing to topic "{self.topic}": {why}')
        self.catch_up()

    def _forget_unstored(self) -> None:
        """The caller gets an error for all of them, so none may be sent later, when another service is active.

        A record that was sent once is included: librdkafka would send it again for up to 5 minutes.
        """
        self._producer.purge()
        self._producer.flush(FORGET_S)  # frees their places in the producer's queue

    def close(self) -> None:
        self._consumer.close()
