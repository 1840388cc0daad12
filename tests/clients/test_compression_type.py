"""Real clients write with any codec to topics that store another codec, and read back their records."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from odradek.protocol.batch import iter_batches
from odradek.protocol.compression import Codec
from support.broker_process import BrokerProcess
from support.wiretap import Wiretap

pytestmark = pytest.mark.clients

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
STORED = {"uncompressed": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
VALUES = [b"%06d" % number * 20 for number in range(1000)]


def create_topic(tap: Wiretap, name: str, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": tap.bootstrap})
    admin.create_topics([NewTopic(name, 1, config=settings)])[name].result(60)


def codecs_on_disk(broker: BrokerProcess, topic: str) -> set[str]:
    data = (broker.data / f"{topic}-0" / f"{0:020d}.log").read_bytes()
    return {Codec(header.codec).name.lower() for header, _ in iter_batches(data)}


def produce(tap: Wiretap, topic: str, values: list[bytes], **config: object) -> None:
    failed: list[object] = []

    def on_delivery(error: object, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": tap.bootstrap, "linger.ms": 5, "batch.num.messages": 100} | config)
    for value in values:
        producer.produce(topic, value, key=b"k", headers={"h": b"1"}, on_delivery=on_delivery)
    assert producer.flush(60) == 0
    assert failed == []


def read(tap: Wiretap, topic: str, count: int) -> list[bytes | None]:
    reader = Consumer({"bootstrap.servers": tap.bootstrap, "group.id": "reader", "check.crcs": True})
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    messages: list[Message] = []
    deadline = time.monotonic() + 30
    while len(messages) < count and time.monotonic() < deadline:
        messages += reader.consume(count - len(messages), 0.2)
    reader.close()
    assert [message.error() for message in messages] == [None] * count
    assert [message.offset() for message in messages] == list(range(count))
    return [message.value() for message in messages]


@pytest.mark.parametrize("compression_type", [*STORED, "producer"])
@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_back_what_is_stored_in_another_codec(
    tap: Wiretap, broker: BrokerProcess, codec: str, compression_type: str
) -> None:
    topic = f"{codec}-to-{compression_type}"
    create_topic(tap, topic, compression_type=compression_type)
    produce(tap, topic, VALUES, **{"compression.type": codec, "enable.idempotence": True})
    assert read(tap, topic, len(VALUES)) == VALUES
    assert codecs_on_disk(broker, topic) == {STORED.get(compression_type, codec)}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_recompression_works_with_all_acks_settings(tap: Wiretap, broker: BrokerProcess, acks: str) -> None:
    create_topic(tap, f"acks-{acks}", compression_type="zstd")
    produce(tap, f"acks-{acks}", VALUES, acks=acks)
    assert read(tap, f"acks-{acks}", len(VALUES)) == VALUES
    assert codecs_on_disk(broker, f"acks-{acks}") == {"zstd"}


def test_idempotent_requests_in_flight_keep_their_order(tap: Wiretap) -> None:
    create_topic(tap, "in-order", compression_type="gzip", compression_gzip_level="9")
    values = [b"%d" % number for number in range(20_000)]
    quick = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 20}
    produce(tap, "in-order", values, **quick)
    assert read(tap, "in-order", len(values)) == values


def test_batch_that_exceeds_max_message_bytes_after_recompression_is_refused(tap: Wiretap) -> None:
    create_topic(tap, "too-large", compression_type="uncompressed", max_message_bytes="2000")
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": tap.bootstrap, "compression.type": "gzip"})
    producer.produce("too-large", bytes(50_000), on_delivery=lambda error, _: refused.append(error.name()))
    assert producer.flush(60) == 0
    assert refused == ["MSG_SIZE_TOO_LARGE"]


@pytest.mark.parametrize(("key", "value"), [("compression.type", "brotli"), ("compression.gzip.level", "10")])
def test_unknown_codec_or_level_is_refused_by_name(tap: Wiretap, key: str, value: str) -> None:
    with pytest.raises(KafkaException, match=key):
        create_topic(tap, "refused", **{key: value})


@pytest.mark.parametrize("compression_type", STORED)
def test_aiokafka_reads_back_what_is_stored_in_another_codec(tap: Wiretap, compression_type: str) -> None:
    topic = f"aio-to-{compression_type}"
    create_topic(tap, topic, compression_type=compression_type)

    async def story() -> list[bytes]:
        writer = {"compression_type": "lz4", "enable_idempotence": True}
        async with AIOKafkaProducer(bootstrap_servers=tap.bootstrap, **writer) as producer:
            for pending in [await producer.send(topic, value) for value in VALUES]:
                await pending
        place = {"auto_offset_reset": "earliest", "group_id": None}
        async with AIOKafkaConsumer(topic, bootstrap_servers=tap.bootstrap, **place) as reader:
            return [(await reader.getone()).value for _ in VALUES]

    assert asyncio.run(asyncio.wait_for(story(), 60)) == VALUES


@pytest.mark.parametrize("compression_type", STORED)
def test_kafka_python_reads_back_what_is_stored_in_another_codec(tap: Wiretap, compression_type: str) -> None:
    topic = f"kp-to-{compression_type}"
    create_topic(tap, topic, compression_type=compression_type)
    producer = KafkaProducer(bootstrap_servers=tap.bootstrap, compression_type="snappy", acks="all", linger_ms=5)
    sent = [producer.send(topic, value) for value in VALUES]
    assert [pending.get(10).offset for pending in sent] == list(range(len(VALUES)))
    producer.close()
    reader = KafkaConsumer(topic, bootstrap_servers=tap.bootstrap, auto_offset_reset="earliest", group_id=None)
    assert [next(reader).value for _ in VALUES] == VALUES
    reader.close()
