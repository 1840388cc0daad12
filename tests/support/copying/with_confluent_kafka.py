"""Copies `in` to `out` with librdkafka: `python with_confluent_kafka.py [plain] BOOTSTRAP TRANSACTIONAL_ID PARTITIONS`.

Any error but an abortable one ends the program: its supervisor starts it again. With `plain` there are no
transactions, and a killed copier leaves duplicates.
"""

from __future__ import annotations

import sys
import uuid
from itertools import count

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

RECORDS_MAX = 100
NAMES = (f"{uuid.uuid4()}/{number}" for number in count())


def main(bootstrap: str, transactional_id: str, *, plain: bool) -> None:
    common = {"bootstrap.servers": bootstrap, "log_level": 0}
    if plain:
        producer = Producer({**common, "enable.idempotence": True})
    else:
        producer = Producer({**common, "transactional.id": transactional_id, "transaction.timeout.ms": 20_000})
        producer.init_transactions(60)
    consumer = Consumer(
        {
            **common,
            "group.id": "copiers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
        }
    )
    consumer.subscribe(["in"])
    copy = copy_plainly if plain else copy_in_a_transaction
    while True:
        messages = [each for each in consumer.consume(RECORDS_MAX, 0.2) if each.error() is None]
        if messages:
            copy(producer, consumer, messages)


def produce(producer: Producer, messages: list) -> list[TopicPartition]:
    headers = {"transaction": next(NAMES), "size": str(len(messages))}
    for message in messages:
        producer.produce("out", message.value(), message.key(), partition=message.partition(), headers=headers)
    ends = {(each.topic(), each.partition()): each.offset() + 1 for each in messages}
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]


def copy_in_a_transaction(producer: Producer, consumer: Consumer, messages: list) -> None:
    producer.begin_transaction()
    try:
        offsets = produce(producer, messages)
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)
    except KafkaException as failed:
        if not failed.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(60)
        # Continue at what is committed.
        raise SystemExit(3) from failed


def copy_plainly(producer: Producer, consumer: Consumer, messages: list) -> None:
    offsets = produce(producer, messages)
    producer.flush(60)
    consumer.commit(offsets=offsets, asynchronous=False)


if __name__ == "__main__":
    is_plain = sys.argv[1] == "plain"
    main(*sys.argv[2 if is_plain else 1 :][:2], plain=is_plain)
