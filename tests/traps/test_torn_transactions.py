"""Torn transactions, as Jepsen found them: a delayed request of one transaction arrives during the next one.

Two connections stand for one producer: what the first one sent last arrives late, after a retry on the second one. With
an epoch for each transaction (transaction.version 2) the late request is refused. Older producers keep their epoch, so
the late request is taken for one of the next transaction, as with Kafka.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from traps.test_transactions import TV2_END, TV2_PRODUCE, Transactor, _retried, committed, eventually

FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def produce(producer: Transactor, topic: str, *values: bytes, version: int) -> int:
    return _retried(lambda: producer.produce(topic, *values, version=version), lambda code: code)


def test_late_commit_does_not_end_the_next_transaction_of_a_producer_with_an_epoch_for_each(wire, topic):
    producer = Transactor(wire, f"{topic}-new")
    assert produce(producer, topic, b"first", version=TV2_PRODUCE) == 0
    before = producer.epoch
    assert producer.end(version=TV2_END) == 0
    assert producer.epoch > before
    assert produce(producer, topic, b"half of the second", version=TV2_PRODUCE) == 0
    assert producer.end(version=TV2_END, epoch=before) in FENCED, "the first commit arrives once more"
    assert produce(producer, topic, b"other half", version=TV2_PRODUCE) == 0
    assert producer.end(version=TV2_END, commits=False) == 0
    eventually(lambda: committed(wire, topic), [b"first"])


def test_late_batch_does_not_join_the_next_transaction_of_a_producer_with_an_epoch_for_each(wire, topic):
    producer = Transactor(wire, f"{topic}-new")
    assert produce(producer, topic, b"aborted", version=TV2_PRODUCE) == 0
    before = producer.epoch
    assert producer.end(version=TV2_END, commits=False) == 0
    assert produce(producer, topic, b"second", version=TV2_PRODUCE) == 0
    assert producer.produce(topic, b"late batch of the first", version=TV2_PRODUCE, epoch=before) in FENCED
    assert producer.end(version=TV2_END) == 0
    eventually(lambda: committed(wire, topic), [b"second"])


def test_late_commit_tears_the_next_transaction_of_an_older_producer_as_with_kafka(wire, topic):
    producer = Transactor(wire, f"{topic}-old")
    for value in (b"first", b"half of the second"):
        assert _retried(lambda: producer.add(topic, 0), lambda codes: codes[0]) == [0]
        assert produce(producer, topic, value, version=11) == 0
        if value == b"first":
            assert _retried(producer.end, lambda code: code) == 0
    assert producer.end() == 0, "the first commit arrives once more, and ends the second transaction"
    eventually(lambda: committed(wire, topic), [b"first", b"half of the second"])
    refused = produce(producer, topic, b"other half", version=11)
    assert refused == ErrorCode.TRANSACTION_ABORTABLE, "the producer learns of it, but half is visible already"
    assert committed(wire, topic) == [b"first", b"half of the second"]


def test_new_epoch_after_an_unanswered_request_protects_an_older_producer(wire, topic):
    producer = Transactor(wire, f"{topic}-old")
    assert producer.add(topic, 0) == [0]
    assert produce(producer, topic, b"first", version=11) == 0
    before = producer.epoch
    assert producer.end() == 0
    assert producer.init().error_code == 0, "it does not know whether another commit is under way"
    assert producer.add(topic, 0) == [0]
    assert produce(producer, topic, b"second", version=11) == 0
    assert producer.end(epoch=before) in FENCED
    assert producer.end(commits=False) == 0
    eventually(lambda: committed(wire, topic), [b"first"])
