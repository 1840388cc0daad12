"""Transactions written by a real client: committed, aborted and open ones, with offsets of a group, and compaction.

`fill` writes it, `expected` is what readers with read_committed must see, and `seen` what they do see.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.small_world import FIRST_MS, client
from support.waiting import wait_until

TOPIC, COMPACTED = "payments", "balances"
GROUP = "copiers"
# A transaction stays open for as long as its coordinator allows.
TIMEOUT_MS = 15 * 60 * 1000
CONFIGS = {
    TOPIC: {"retention.ms": "-1", "internal.segment.bytes": "1500", "index.interval.bytes": "200"},
    COMPACTED: {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "1500",
        "min.cleanable.dirty.ratio": "0.0001",
        "segment.ms": "100",
    },
}


@dataclass
class World:
    """What readers with read_committed see."""

    committed: list[bytes] = field(default_factory=list)
    balances: dict[bytes, bytes] = field(default_factory=dict)
    offset: int = 0  # of the group


class Round(NamedTuple):
    """One transaction, and a record outside of transactions."""

    number: int

    @property
    def aborts(self) -> bool:
        return self.number % 3 == 1

    @property
    def commits_offset(self) -> bool:
        return self.number % 4 == 0

    @property
    def texts(self) -> list[bytes]:
        return [b"%d.%d %s" % (self.number, n, b"aborted" if self.aborts else b"committed") for n in range(3)]

    @property
    def keys(self) -> list[bytes]:
        return [b"account %d" % (n + self.number % 2) for n in range(3)]

    @property
    def plain(self) -> bytes:
        return b"plain %d" % self.number


ROUNDS = [Round(number) for number in range(24)]
UNDECIDED = [b"open", b"after"]


def expected() -> World:
    world = World()
    for one in ROUNDS:
        if not one.aborts:
            world.committed += one.texts
            world.balances |= dict(zip(one.keys, one.texts, strict=True))
            world.offset = one.number + 1 if one.commits_offset else world.offset
        world.committed.append(one.plain)
    return world


def fill(bootstrap: str) -> list[Producer]:
    """Returns the producers of the open transactions, which abort them when they are released."""
    admin = AdminClient(client(bootstrap))
    wanted = [NewTopic(name, 1, config=config) for name, config in CONFIGS.items()]
    for created in admin.create_topics(wanted).values():
        created.result(20)
    first, second = (transactional(bootstrap, name) for name in ("first", "second"))
    plain = Producer(client(bootstrap) | {"enable.idempotence": True})
    reader = Consumer(client(bootstrap, GROUP))
    for one in ROUNDS:
        producer = (first, second)[one.number % 2]
        producer.begin_transaction()
        for key, text in zip(one.keys, one.texts, strict=True):
            producer.produce(TOPIC, text, timestamp=FIRST_MS + one.number)
            producer.produce(COMPACTED, text, key)
            producer.flush(20)
        if one.commits_offset:
            offset = TopicPartition(TOPIC, 0, one.number + 1)
            producer.send_offsets_to_transaction([offset], reader.consumer_group_metadata(), 20)
        producer.abort_transaction(20) if one.aborts else producer.commit_transaction(20)
        plain.produce(TOPIC, one.plain, timestamp=FIRST_MS + one.number)
        plain.flush(20)
    _leave_open(first, second, plain, reader)
    return [first, second]


def _leave_open(first: Producer, second: Producer, plain: Producer, reader: Consumer) -> None:
    """An aborted transaction ends after an open one has begun, and the group has an undecided offset."""
    second.begin_transaction()
    second.produce(TOPIC, b"aborted")
    second.flush(20)
    first.begin_transaction()
    first.produce(TOPIC, b"open")
    first.flush(20)
    first.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 999)], reader.consumer_group_metadata(), 20)
    plain.produce(TOPIC, b"after")
    plain.flush(20)
    second.abort_transaction(20)


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer(
        client(bootstrap) | {"transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 0}
    )
    producer.init_transactions(30)
    return producer


def seen(bootstrap: str, topic: str = TOPIC, isolation: str = "read_committed") -> list[tuple[bytes, bytes]]:
    """Key and value of all records up to the last stable offset, or to the high watermark."""
    consumer = Consumer(client(bootstrap, "onlooker") | {"isolation.level": isolation, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found.append((message.key(), message.value()))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found
    raise TimeoutError(f"no end of {topic} after {len(found)} records")


def check(bootstrap: str, *, decided: Sequence[bytes] = ()) -> None:
    """`decided`: which of the records that `fill` left undecided count now."""
    world = expected()
    assert [value for _, value in seen(bootstrap)] == [*world.committed, *decided]
    everything = [value for _, value in seen(bootstrap, isolation="read_uncommitted")]
    assert everything[-3:] == [b"aborted", *UNDECIDED]
    assert dict(seen(bootstrap, COMPACTED)) == world.balances


def await_compacted(data: Path) -> None:
    """The cleaner has seen most of the compacted topic."""
    checkpoint = data / "cleaner-offset-checkpoint"
    wait_until(
        lambda: (
            checkpoint.exists()
            and any(
                line.startswith(f"{COMPACTED} 0 ") and int(line.split()[2]) > len(ROUNDS) * 3
                for line in checkpoint.read_text().splitlines()
            )
        ),
        "the compaction of the topic",
        within_s=600,
    )
