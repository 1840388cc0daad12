"""Copies `in` to `out` with librdkafka: `python with_confluent_kafka.py BOOTSTRAP TRANSACTIONAL_ID`.

Any error but an abortable one ends the program: its supervisor starts it again.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

RECORDS_MAX = 100


def main(bootstrap: str, transactional_id: str) -> None:
    common = {"bootstrap.servers": bootstrap, "log_level": 0}
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
    while True:
        messages = [each for each in consumer.consume(RECORDS_MAX, 0.2) if each.error() is None]
        if messages:
            copy(producer, consumer, messages)


def copy(producer: Producer, consumer: Consumer, messages: list) -> None:
    ends = {(each.topic(), each.partition()): each.offset() + 1 for each in messages}
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce("out", message.value(), message.key(), partition=message.partition())
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)
    except KafkaException as failed:
        if not failed.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(60)
        # Continue at what is committed.
        raise SystemExit(3) from failed


if __name__ == "__main__":
    main(*sys.argv[1:])
