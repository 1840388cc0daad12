"""One message as a command or a program that reads it again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    text: str


def commands(bootstrap: str, topic: str, partition: int, offset: int, url: str) -> list[Command]:
    """`url` is the address of the message in this console."""
    where = f"-b {shlex.quote(bootstrap)}"
    name = shlex.quote(topic)
    return [
        Command("odradek", f"odradek consume {where} {name} -p {partition} -o {offset}:{offset + 1} -f jsonl"),
        Command("kcat", f"kcat -C {where} -t {name} -p {partition} -o {offset} -c 1 -e -J"),
        Command("curl", f"curl -s {shlex.quote(url)}"),
        Command("Python", _python(bootstrap, topic, partition, offset)),
    ]


def _python(bootstrap: str, topic: str, partition: int, offset: int) -> str:
    return f"""from confluent_kafka import Consumer, TopicPartition

consumer = Consumer({{"bootstrap.servers": {bootstrap!r}, "group.id": "none", "enable.auto.commit": False}})
consumer.assign([TopicPartition({topic!r}, {partition}, {offset})])
message = consumer.poll(10)
print(message.key(), message.value(), message.headers())
consumer.close()"""
