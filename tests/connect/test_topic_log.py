"""The log of entries in a topic that brokers learn of one after another."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from odradek.client import Admin
from odradek.client.records import ClientError
from odradek.connect.storage.topic_log import Entry, StorageFailed, TopicLog
from odradek.testing import Embedded


class CreatedLate(Admin):
    """Its topics exist only after a broker was asked about them and did not know them."""

    waiting: tuple[str, int] | None = None
    refused = 0

    def create_topic(self, name: str, partitions: int = -1, *_: object, **__: object) -> bool:
        self.waiting = name, partitions
        return True

    def topic_config(self, topic: str) -> dict[str, str]:
        try:
            return super().topic_config(topic)
        except ClientError:
            self.refused += 1
            assert self.waiting is not None
            super().create_topic(*self.waiting, {"cleanup.policy": "compact"})
            raise


def test_a_topic_that_a_broker_does_not_know_yet_is_waited_for(broker: Embedded) -> None:
    admin = CreatedLate(broker.bootstrap_servers)
    applied: list[Entry] = []
    log = TopicLog(admin, "late", 2, {}, applied.append)
    log.append([(b"key", b"value")])
    assert admin.refused == 1
    assert applied == [Entry("late", b"key", b"value")]
    log.close()


class Silent(Admin):
    """Its brokers do not say where topics end."""

    def end_offsets(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        raise ClientError(f"asking for the offsets of {topic!r}", KafkaError(KafkaError._TIMED_OUT))


def test_a_topic_whose_end_is_not_known_cannot_be_read(broker: Embedded) -> None:
    log = TopicLog(Silent(broker.bootstrap_servers), "silent", 1, {}, lambda _: None)
    with pytest.raises(StorageFailed, match="silent"):
        log.append([(b"key", b"value")])
    log.close()
