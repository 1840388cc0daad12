"""The log of entries in a topic that brokers learn of one after another."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from odradek.client import Admin
from odradek.client.records import ClientError
from odradek.connect.storage import topic_log
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


def test_a_record_that_was_reported_as_failed_is_not_sent_again(
    broker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka sends a record again when its connection ends without an answer."""
    applied: list[Entry] = []
    config = {"socket.timeout.ms": "1000"}
    log = TopicLog(Admin(broker.bootstrap_servers), "unanswered", 1, config, applied.append)
    log.append([(b"key", b"before")])
    broker.delay("Produce", 600_000, times=None)
    with monkeypatch.context() as patched:
        patched.setattr(topic_log, "CATCH_UP_S", 0.5)
        with pytest.raises(StorageFailed, match="no acknowledgement"):
            log.append([(b"key", b"failed")])
    broker.calm()
    log.append([(b"key", b"after")])
    assert [entry.value for entry in applied] == [b"before", b"after"]
    log.close()


def test_records_before_one_that_is_refused_are_not_sent(broker: Embedded) -> None:
    applied: list[Entry] = []
    config = {"queue.buffering.max.messages": "2"}
    log = TopicLog(Admin(broker.bootstrap_servers), "queue-full", 1, config, applied.append)
    broker.delay("Produce", 600_000, times=None)
    with pytest.raises(StorageFailed, match="Queue full"):
        log.append([(b"key", b"%d" % number) for number in range(3)])
    broker.calm()
    log.append([(b"key", b"after")])
    assert [entry.value for entry in applied] == [b"after"]
    log.close()
