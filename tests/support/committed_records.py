"""The committed records of a topic, also while others are written to it."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from odradek.client.admin import Admin


def committed_records(bootstrap: str, topic: str) -> list[Message]:
    """Those that are there now, in the order of the topic's only partition; none if there is no topic."""
    admin = Admin(bootstrap)
    if topic not in admin.topics():
        return []
    end = admin.end_offsets(topic)[0]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None, f"no end of {topic} within 30 s"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            if message.offset() >= end:
                return found
            found.append(message)
    finally:
        consumer.close()
