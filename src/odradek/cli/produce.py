"""`odradek produce`: lines in, records out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from odradek.cli.remote import (
    NOT_FOUND,
    REQUEST_TIMEOUT_S,
    bootstrap_option,
    client_config,
    fail,
    key_value,
    refusals_told,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

FLUSH_TIMEOUT_S = 30.0
RECORD_BYTES_MAX = 100_000_000  # what is too large is for the broker to say


@click.command("produce")
@bootstrap_option
@click.argument("topic")
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-separator", help="Split each line into key and value at this text.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; repeatable.")
@click.option("-p", "--partition", type=int, default=-1, help="Write to this partition, whatever the key.")
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
def command(
    bootstrap: str,
    topic: str,
    key: str | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int,
    compression: str,
    acks: str,
) -> None:
    """Write each line of standard input to TOPIC as one record."""
    from confluent_kafka import KafkaException, Producer

    pairs = [key_value(header, "NAME=VALUE", "--header") for header in headers]
    failures: list[KafkaException] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None and not failures:
            failures.append(KafkaException(error))

    producer = Producer(
        client_config(
            bootstrap,
            acks=acks,
            **{
                "compression.type": compression,
                "partitioner": "murmur2_random",
                "enable.idempotence": acks == "all",
                "message.timeout.ms": int(FLUSH_TIMEOUT_S * 1000),
                "message.max.bytes": RECORD_BYTES_MAX,
            },
        )
    )
    with refusals_told(bootstrap):
        # Asking creates the topic, where the broker allows that.
        if producer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic].error is not None:
            fail(f"there is no topic {topic!r}; create it with `odradek topic create {topic}`", NOT_FOUND)
        if sys.stdin.isatty():
            click.echo("one record per line; Ctrl-D ends", err=True)
        for line in sys.stdin.buffer:
            record_key, value = _split(line.rstrip(b"\n"), key, key_separator)
            while True:
                try:
                    producer.produce(topic, value, record_key, partition, headers=pairs or None, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            if failures:
                break
        unsent = producer.flush(FLUSH_TIMEOUT_S + 5)
        if failures:
            raise failures[0]
        if unsent:
            fail(f"{unsent} records were not acknowledged within {FLUSH_TIMEOUT_S:.0f} s")


def _split(line: bytes, key: str | None, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is not None:
        head, found, tail = line.partition(separator.encode())
        if found:
            return head, tail
    return (None if key is None else key.encode()), line
