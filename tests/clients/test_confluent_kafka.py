"""confluent-kafka (librdkafka) against a broker process."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from support.wiretap import Wiretap

pytestmark = pytest.mark.clients


def create_topic(tap: Wiretap, name: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": tap.bootstrap})
    admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(60)


def consumer(tap: Wiretap, group: str, **config: object) -> Consumer:
    settings = {"bootstrap.servers": tap.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer(settings | {"enable.auto.commit": False, "check.crcs": True} | config)


def produce(tap: Wiretap, topic: str, values: list[bytes], **config: object) -> list[Message]:
    delivered: list[Message] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None
        delivered.append(message)

    producer = Producer({"bootstrap.servers": tap.bootstrap} | config)
    for number, value in enumerate(values):
        producer.produce(topic, value, key=b"k%d" % (number % 7), on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(60) == 0
    return delivered


def read(member: Consumer, count: int, timeout_s: float = 30) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count and time.monotonic() < deadline:
        message = member.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
    assert len(messages) == count
    return messages


def poll_until(members: list[Consumer], condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the group did not settle"
        for member in members:
            member.poll(0.05)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_and_acks_round_trips(tap: Wiretap, codec: str, acks: str) -> None:
    topic = f"codec-{codec}-{acks}"
    create_topic(tap, topic)
    values = [b"%06d" % number * 20 for number in range(2000)]
    produce(tap, topic, values, acks=acks, **{"compression.type": codec, "linger.ms": 5})
    reader = consumer(tap, "none")
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    messages = read(reader, len(values))
    reader.close()
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(len(values)))


def test_idempotent_producer_keeps_order_per_key(tap: Wiretap) -> None:
    create_topic(tap, "idempotent", 4)
    sent = [b"%d" % number for number in range(5000)]
    produce(tap, "idempotent", sent, **{"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 50})
    reader = consumer(tap, "none")
    reader.assign([TopicPartition("idempotent", index, OFFSET_BEGINNING) for index in range(4)])
    by_key: dict[bytes, list[int]] = {}
    for message in read(reader, len(sent)):
        by_key.setdefault(message.key(), []).append(int(message.value()))
    reader.close()
    assert sum(map(len, by_key.values())) == len(sent)
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_shares_partitions_and_rebalances(tap: Wiretap, strategy: str) -> None:
    topic = f"shared-{strategy}"
    create_topic(tap, topic, 4)
    settings = {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 200, "session.timeout.ms": 6000}
    first, second = (consumer(tap, f"group-{strategy}", **settings) for _ in range(2))
    first.subscribe([topic])
    poll_until([first], lambda: len(first.assignment()) == 4)
    second.subscribe([topic])
    poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
    owned = {tp.partition for member in (first, second) for tp in member.assignment()}
    assert owned == {0, 1, 2, 3}
    first.close()
    poll_until([second], lambda: len(second.assignment()) == 4)
    second.close()


def test_commit_and_resume(tap: Wiretap) -> None:
    create_topic(tap, "resume")
    produce(tap, "resume", [b"%d" % number for number in range(10)])
    member = consumer(tap, "resuming")
    member.subscribe(["resume"])
    seen = read(member, 6)
    member.commit(seen[-1], asynchronous=False)
    member.close()
    successor = consumer(tap, "resuming")
    successor.subscribe(["resume"])
    assert [int(message.value()) for message in read(successor, 4)] == [6, 7, 8, 9]
    [committed] = successor.committed([TopicPartition("resume", 0)], timeout=60)
    assert committed.offset == 6
    successor.close()


def test_static_member_rejoins_without_a_rebalance(tap: Wiretap) -> None:
    create_topic(tap, "static", 2)
    settings = {"group.instance.id": "one", "session.timeout.ms": 20000, "partition.assignment.strategy": "range"}
    member = consumer(tap, "static-group", **settings)
    member.subscribe(["static"])
    poll_until([member], lambda: len(member.assignment()) == 2)
    admin = AdminClient({"bootstrap.servers": tap.bootstrap})
    before = admin.describe_consumer_groups(["static-group"])["static-group"].result(60)
    member.close()
    again = consumer(tap, "static-group", **settings)
    again.subscribe(["static"])
    poll_until([again], lambda: len(again.assignment()) == 2)
    after = admin.describe_consumer_groups(["static-group"])["static-group"].result(60)
    assert [member.group_instance_id for member in after.members] == ["one"]
    assert before.members[0].member_id != after.members[0].member_id
    again.close()


def test_seek_by_offset_and_time(tap: Wiretap) -> None:
    create_topic(tap, "seek")
    producer = Producer({"bootstrap.servers": tap.bootstrap, "linger.ms": 50})
    start = int(time.time() * 1000) - 10_000
    for number in range(100):
        producer.produce("seek", b"%d" % number, timestamp=start + number * 10)
    assert producer.flush(60) == 0
    reader = consumer(tap, "seeking")
    reader.assign([TopicPartition("seek", 0, OFFSET_BEGINNING)])
    read(reader, 1)
    reader.seek(TopicPartition("seek", 0, 90))
    assert int(read(reader, 1)[0].value()) == 90
    [found] = reader.offsets_for_times([TopicPartition("seek", 0, start + 455)], timeout=60)
    assert found.offset == 46
    [beyond] = reader.offsets_for_times([TopicPartition("seek", 0, start + 5000)], timeout=60)
    assert beyond.offset == -1
    assert reader.get_watermark_offsets(TopicPartition("seek", 0), timeout=60) == (0, 100)
    reader.close()


def test_topics_are_created_grown_configured_and_deleted(tap: Wiretap) -> None:
    admin = AdminClient({"bootstrap.servers": tap.bootstrap})
    create_topic(tap, "life", 2, **{"retention.ms": "60000"})
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        create_topic(tap, "life")
    admin.create_partitions([NewPartitions("life", 3)])["life"].result(60)
    assert len(admin.list_topics("life", timeout=60).topics["life"].partitions) == 3
    resource = ConfigResource(ResourceType.TOPIC, "life")
    described = admin.describe_configs([resource])[resource].result(60)
    assert described["retention.ms"].value == "60000"
    assert described["max.message.bytes"].is_default
    change = ConfigResource(
        ResourceType.TOPIC,
        "life",
        incremental_configs=[ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([change])[resource].result(60)
    assert admin.describe_configs([resource])[resource].result(60)["max.message.bytes"].value == "2000"
    refusals: list[KafkaError] = []
    with Producer({"bootstrap.servers": tap.bootstrap}) as producer:
        producer.produce("life", b"x" * 5000, on_delivery=lambda error, _: refusals.append(error))
        assert producer.flush(60) == 0
    assert [error.code() for error in refusals] == [KafkaError.MSG_SIZE_TOO_LARGE]
    admin.delete_topics(["life"])["life"].result(60)
    assert "life" not in admin.list_topics(timeout=60).topics


def test_admin_sees_groups_and_offsets_and_deletes_them(tap: Wiretap) -> None:
    create_topic(tap, "watched")
    produce(tap, "watched", [b"a", b"b", b"c"])
    member = consumer(tap, "watchers")
    member.subscribe(["watched"])
    member.commit(read(member, 3)[-1], asynchronous=False)
    admin = AdminClient({"bootstrap.servers": tap.bootstrap})
    described = admin.describe_consumer_groups(["watchers"])["watchers"].result(60)
    assert described.state.name == "STABLE"
    assert described.members[0].assignment.topic_partitions == [TopicPartition("watched", 0)]
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups(["watchers"])["watchers"].result(60)
    member.close()
    admin.delete_consumer_groups(["watchers"])["watchers"].result(60)
    assert "watchers" not in {group.group_id for group in admin.list_consumer_groups().result(60).valid}


def test_records_can_be_deleted_from_the_front(tap: Wiretap) -> None:
    create_topic(tap, "trimmed")
    produce(tap, "trimmed", [b"%d" % number for number in range(10)], **{"linger.ms": 50})
    admin = AdminClient({"bootstrap.servers": tap.bootstrap})
    partition = TopicPartition("trimmed", 0, 4)
    admin.delete_records([partition])[partition].result(60)
    earliest = admin.list_offsets({TopicPartition("trimmed", 0): OffsetSpec.earliest()})
    assert next(iter(earliest.values())).result(60).offset == 4
    reader = consumer(tap, "none")
    reader.assign([TopicPartition("trimmed", 0, OFFSET_BEGINNING)])
    assert [int(message.value()) for message in read(reader, 6)] == [4, 5, 6, 7, 8, 9]
    reader.close()


def test_topic_is_auto_created_by_the_first_write(tap: Wiretap) -> None:
    assert len(produce(tap, "sprung-up", [b"hello"])) == 1


def test_consume_transform_produce_in_transactions(tap: Wiretap) -> None:
    """An aborted transaction leaves neither records nor offsets for readers with read_committed."""
    create_topic(tap, "into")
    create_topic(tap, "out-of")
    produce(tap, "into", [b"a", b"b"])
    member = consumer(tap, "copier")
    member.subscribe(["into"])
    copied = read(member, 2)
    producer = Producer({"bootstrap.servers": tap.bootstrap, "transactional.id": "copier"})
    producer.init_transactions(30)

    def copy() -> None:
        producer.begin_transaction()
        for message in copied:
            producer.produce("out-of", message.value())
        # An abort drops what is not sent yet.
        assert producer.flush(60) == 0
        offsets = [TopicPartition("into", 0, copied[-1].offset() + 1)]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 30)

    copy()
    producer.abort_transaction(30)
    assert member.committed([TopicPartition("into", 0)], 30)[0].offset < 0
    copy()
    producer.commit_transaction(30)
    assert member.committed([TopicPartition("into", 0)], 30)[0].offset == 2
    member.close()
    reader = consumer(tap, "reader", **{"isolation.level": "read_committed"})
    reader.assign([TopicPartition("out-of", 0, OFFSET_BEGINNING)])
    assert [message.value() for message in read(reader, 2)] == [b"a", b"b"]
    reader.close()
    careless = consumer(tap, "careless", **{"isolation.level": "read_uncommitted"})
    careless.assign([TopicPartition("out-of", 0, OFFSET_BEGINNING)])
    assert [message.value() for message in read(careless, 4)] == [b"a", b"b", b"a", b"b"]
    careless.close()


def test_older_transactional_producer_is_fenced(tap: Wiretap) -> None:
    create_topic(tap, "fenced")
    old, new = (Producer({"bootstrap.servers": tap.bootstrap, "transactional.id": "same"}) for _ in range(2))
    old.init_transactions(30)
    old.begin_transaction()
    old.produce("fenced", b"old")
    new.init_transactions(30)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(30)
    assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


def test_a_client_is_not_offered_telemetry_without_a_subscription(tap: Wiretap) -> None:
    """It would print a line to stderr. Its software is named in ApiVersions, which is how the broker knows."""
    produce(tap, "quiet", [b"value"])
    assert ("ApiVersions", 3) in tap.spoken()
    assert "GetTelemetrySubscriptions" not in {api for api, _ in tap.spoken()}
