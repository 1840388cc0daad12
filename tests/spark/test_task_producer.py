"""The producer of a task: it partitions like Java, waits for all acknowledgements, and fails if one is missing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from odradek.client.admin import Admin
from odradek.spark import task_producer
from odradek.spark.sink_options import sink_options
from odradek.spark.task_producer import DeliveryFailed, Failures, Record, TaskProducer
from odradek.testing import Embedded
from support.broker_process import BrokerProcess, free_port

# from Kafka's own test of its hash
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with Embedded(config={"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Embedded, request: pytest.FixtureRequest) -> str:
    Admin(broker.bootstrap_servers).create_topic(request.node.name, 5)
    return request.node.name


def config(bootstrap: str, **kafka: str) -> dict[str, str]:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in kafka.items()}
    return sink_options({"kafka.bootstrap.servers": bootstrap, **given}).config | {"log_level": "0"}


def deliver(config: dict[str, str], records: list[Record]) -> None:
    with TaskProducer(config) as producer:
        producer.send(records)
        producer.finish()


def stored(bootstrap: str, topic: str) -> list[Message]:
    ends = Admin(bootstrap).end_offsets(topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, index, 0) for index in ends])
    messages = consumer.consume(sum(ends.values()), timeout=20)
    consumer.close()
    return messages


def test_murmur2_of_this_file_matches_kafka() -> None:
    assert {key: murmur2(key) for key in MURMUR2} == MURMUR2


def test_key_goes_to_the_same_partition_as_in_java(broker: Embedded, topic: str) -> None:
    keys = [*MURMUR2, b"", *(f"key-{number}".encode() for number in range(300))]
    deliver(config(broker.bootstrap_servers), [(topic, b"v", key) for key in keys])
    placed = {message.key(): message.partition() for message in stored(broker.bootstrap_servers, topic)}
    assert placed == {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in keys}


def test_partitions_headers_nulls_and_tombstones_arrive_as_given(broker: Embedded, topic: str) -> None:
    headers = [("why", b"because"), ("why", b""), ("none", None)]
    records: list[Record] = [
        (topic, b"with headers", b"k", 3, None, None, 0, headers),
        (topic, None, b"deleted", 3, None, None, 0, None),
        (topic, b"", None, 3),
        (topic, b"no key", None, 3),
    ]
    deliver(config(broker.bootstrap_servers), records)
    arrived = stored(broker.bootstrap_servers, topic)
    assert [(m.partition(), m.key(), m.value(), m.headers()) for m in arrived] == [
        (3, b"k", b"with headers", headers),
        (3, b"deleted", None, None),
        (3, None, b"", None),
        (3, None, b"no key", None),
    ]


def test_unknown_topic_fails_and_does_not_hang(broker: Embedded) -> None:
    quick = config(broker.bootstrap_servers, topic_metadata_propagation_max_ms="100")
    told = r"3 records were not delivered; the first to topic 'nowhere': .*UNKNOWN_TOPIC_OR_PART.*; create the topic"
    with pytest.raises(DeliveryFailed, match=told):
        deliver(quick, [("nowhere", b"v")] * 3)


def test_missing_partition_fails(broker: Embedded, topic: str) -> None:
    with pytest.raises(DeliveryFailed, match=r"_UNKNOWN_PARTITION\); the column partition names"):
        deliver(config(broker.bootstrap_servers), [(topic, b"v", None, 9)])


def test_a_record_that_is_too_large_fails_with_the_limit(broker: Embedded, topic: str) -> None:
    with pytest.raises(DeliveryFailed, match=r"MSG_SIZE_TOO_LARGE.*kafka\.max\.request\.size"):
        deliver(config(broker.bootstrap_servers), [(topic, b"v" * 2_000_000)])


def test_record_refused_by_the_broker_fails_the_task(broker: Embedded) -> None:
    Admin(broker.bootstrap_servers).create_topic("small", 1, {"max.message.bytes": "200"})
    with pytest.raises(DeliveryFailed, match=r"to topic 'small': .*MSG_SIZE_TOO_LARGE"):
        deliver(config(broker.bootstrap_servers), [("small", b"v" * 1000)])


def test_delivery_fails_after_its_timeout_when_no_broker_is_reachable() -> None:
    nobody = config(f"127.0.0.1:{free_port()}", delivery_timeout_ms="300", linger_ms="0")
    with pytest.raises(
        DeliveryFailed, match=r"2 records were not delivered.*within kafka\.delivery\.timeout\.ms.*Connection refused"
    ):
        deliver(nobody, [("t", b"v")] * 2)


def test_send_waits_while_the_queue_is_full(broker: Embedded, topic: str) -> None:
    narrow = config(broker.bootstrap_servers, queue_buffering_max_messages="10")
    deliver(narrow, [(topic, b"%d" % number, None, 0) for number in range(2_000)])
    assert [int(m.value()) for m in stored(broker.bootstrap_servers, topic)] == list(range(2_000))


def test_send_to_a_full_queue_fails_when_queued_records_time_out() -> None:
    nobody = config(
        f"127.0.0.1:{free_port()}",
        queue_buffering_max_messages="10",
        delivery_timeout_ms="300",
        linger_ms="0",
    )
    with pytest.raises(DeliveryFailed, match="10 records were not delivered"):
        deliver(nobody, [("t", b"v")] * 20)


class FullAtFirst:
    """A producer whose queue is full once, and that refuses the record at the second attempt."""

    def __init__(self, code: int) -> None:
        self._answers = [BufferError(), KafkaException(KafkaError(code))]

    def produce(self, *_: object) -> None:
        raise self._answers.pop(0)

    def poll(self, _: float) -> int:
        return 0

    def purge(self) -> None: ...


def test_record_refused_after_a_full_queue_fails_with_topic_and_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = FullAtFirst(KafkaError.MSG_SIZE_TOO_LARGE)
    monkeypatch.setattr(task_producer, "_producer", lambda _: (full, Failures()))
    with pytest.raises(DeliveryFailed, match=r"to topic 't': .*MSG_SIZE_TOO_LARGE.*kafka\.max\.request\.size"):
        deliver({}, [("t", b"v")])


def test_tasks_of_a_process_share_a_producer_until_one_fails(broker: Embedded, topic: str) -> None:
    mine = config(broker.bootstrap_servers, client_id="shared")
    producers = []
    for _ in range(2):
        with TaskProducer(mine) as producer:
            producers.append(producer._producer)
            producer.finish()
    with pytest.raises(DeliveryFailed):
        deliver(mine, [(topic, b"v", None, 9)])
    with TaskProducer(mine) as producer:
        producers.append(producer._producer)
        producer.finish()
    first, second, third = producers
    assert first is second
    assert second is not third


def test_number_of_kept_producers_is_bounded(broker: Embedded) -> None:
    for number in range(task_producer.PRODUCERS_MAX + 3):
        deliver(config(broker.bootstrap_servers, client_id=f"client-{number}"), [])
    assert len(task_producer._PRODUCERS) == task_producer.PRODUCERS_MAX


def test_producer_without_reachable_brokers_is_dropped_silently(
    broker: Embedded, capfd: pytest.CaptureFixture[str]
) -> None:
    with Embedded() as gone:
        theirs = sink_options({"kafka.bootstrap.servers": gone.bootstrap_servers}).config
        deliver(theirs, [("t", b"v")])
    mine = config(broker.bootstrap_servers)
    deadline = time.monotonic() + 20
    while task_producer._key(theirs) in task_producer._PRODUCERS and time.monotonic() < deadline:
        deliver(mine, [])
    assert list(task_producer._PRODUCERS) == [task_producer._key(mine)]
    assert "rdkafka" not in capfd.readouterr().err


def test_failed_task_sends_no_records_later(broker: Embedded, topic: str) -> None:
    slow = config(broker.bootstrap_servers, linger_ms="60000", batch_num_messages="1000000")

    def first_attempt() -> None:
        with TaskProducer(slow) as producer:
            producer.send([(topic, b"first attempt", None, 0)] * 10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        first_attempt()
    deliver(slow, [(topic, b"second attempt", None, 0)] * 10)
    assert [m.value() for m in stored(broker.bootstrap_servers, topic)] == [b"second attempt"] * 10


def test_every_record_is_stored_once_when_the_broker_is_killed_and_restarted(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        Admin(broker.bootstrap).create_topic("t", 1)
        with TaskProducer(config(broker.bootstrap, reconnect_backoff_max_ms="100")) as producer:
            for part in range(10):
                producer.send(("t", b"%d" % number) for number in range(part * 1_000, (part + 1) * 1_000))
                if part == 5:
                    broker.kill()
            restart = threading.Thread(target=broker.start)
            restart.start()
            producer.finish()
            restart.join()
        assert [int(m.value()) for m in stored(broker.bootstrap, "t")] == list(range(10_000))


def test_task_waits_for_acknowledgements(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        Admin(broker.bootstrap).create_topic("t", 1)
        mine = config(broker.bootstrap)
        deliver(mine, [("t", b"before")])
        os.kill(broker.pid, signal.SIGSTOP)
        waiting = threading.Thread(target=deliver, args=(mine, [("t", b"after")]))
        waiting.start()
        waiting.join(timeout=0.3)
        assert waiting.is_alive()
        os.kill(broker.pid, signal.SIGCONT)
        waiting.join(timeout=20)
        assert Admin(broker.bootstrap).end_offsets("t") == {0: 2}


def murmur2(data: bytes) -> int:
    """The hash of Java's producer, a signed 32-bit number."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h
