"""Groups of real consumers: eager, cooperative and static rebalances, commits, resumption, and what admins see."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from support.waiting import wait_until

pytestmark = pytest.mark.clients

PARTITIONS = 6
WITHIN_S = 60


@pytest.fixture(scope="module")
def broker():
    with Embedded(config={"group.min.session.timeout.ms": "1000"}) as running:
        yield running


@pytest.fixture
def topic(broker, request):
    name = request.node.name.replace("[", "-").replace("]", "")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, num_partitions=PARTITIONS)])[name].result(WITHIN_S)
    return name


def produce(broker, topic: str, count: int, start: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in range(start, start + count):
        producer.produce(topic, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0


class Person:
    """A consumer on its own thread: it records the partitions assigned and revoked, and what it read."""

    def __init__(self, broker, group: str, topic: str, **config) -> None:
        self.topic = topic
        self.owns: set[int] = set()
        self.taken: list[set[int]] = []
        self.read: list[int] = []
        self.member_id = ""
        self._uncommitted: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                # A slow machine must not look like a dead member: its commit would be refused, and its records read
                # again.
                "session.timeout.ms": 60_000,
                "heartbeat.interval.ms": 200,
                **config,
            }
        )
        self._cooperative = config.get("partition.assignment.strategy") == "cooperative-sticky"
        self._stop = threading.Event()
        self._leaves = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._stop.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.read.append(int(message.value()))
                self._uncommitted[message.partition()] = message.offset() + 1
            self._commit()
        if self._leaves:
            self._consumer.close()

    def _commit(self) -> None:
        """While a cooperative group rebalances, its members continue to read, but their commits may have to wait."""
        if not self._uncommitted:
            return
        offsets = [TopicPartition(self.topic, *place) for place in self._uncommitted.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in {KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}:
                raise
        else:
            self._uncommitted.clear()

    def _assigned(self, _consumer, partitions) -> None:
        given = {partition.partition for partition in partitions}
        self.owns = self.owns | given if self._cooperative else given
        self.member_id = self._consumer.memberid()

    def _revoked(self, _consumer, partitions) -> None:
        self._commit()
        taken = {partition.partition for partition in partitions}
        self.taken.append(taken)
        self.owns = self.owns - taken

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(WITHIN_S)


def shared(*people: Person) -> bool:
    """Each member has partitions, no partition has two members, and none is left over."""
    owned = [partition for person in people for partition in person.owns]
    return all(person.owns for person in people) and sorted(owned) == list(range(PARTITIONS))


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_partitions_are_shared_and_nothing_is_read_twice_or_lost(broker, topic, strategy):
    config = {"partition.assignment.strategy": strategy}
    produce(broker, topic, 60)
    ann = Person(broker, topic, topic, **config)
    wait_until(lambda: shared(ann))
    ben = Person(broker, topic, topic, **config)
    wait_until(lambda: shared(ann, ben))
    produce(broker, topic, 60, start=60)
    cat = Person(broker, topic, topic, **config)
    wait_until(lambda: shared(ann, ben, cat))
    wait_until(lambda: len(ann.read + ben.read + cat.read) >= 120)
    ben.leave()
    wait_until(lambda: shared(ann, cat))
    produce(broker, topic, 60, start=120)
    wait_until(lambda: len(ann.read + ben.read + cat.read) >= 180)
    ann.leave()
    cat.leave()
    assert sorted(ann.read + ben.read + cat.read) == list(range(180))
    if strategy == "cooperative-sticky":
        assert set(range(PARTITIONS)) not in ann.taken[:-1], "a cooperative member never gives up everything"


def test_a_consumer_that_returns_goes_on_where_the_group_stopped(broker, topic):
    produce(broker, topic, 30)
    first = Person(broker, topic, topic)
    wait_until(lambda: len(first.read) == 30)
    first.leave()
    produce(broker, topic, 30, start=30)
    second = Person(broker, topic, topic)
    wait_until(lambda: len(second.read) == 30)
    second.leave()
    assert sorted(second.read) == list(range(30, 60))


def test_a_static_member_that_restarts_causes_no_rebalance(broker, topic):
    ann = Person(broker, topic, topic, **{"group.instance.id": "ann"})
    ben = Person(broker, topic, topic, **{"group.instance.id": "ben"})
    wait_until(lambda: shared(ann, ben))
    had, taken_from_ann = set(ben.owns), len(ann.taken)
    ben.leave()
    back = Person(broker, topic, topic, **{"group.instance.id": "ben"})
    wait_until(lambda: back.owns == had)
    assert len(ann.taken) == taken_from_ann
    assert shared(ann, back)
    ann.leave()
    back.leave()


def test_admins_see_the_group_and_can_move_and_delete_it(broker, topic):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    produce(broker, topic, 12)
    ann = Person(broker, topic, topic, **{"client.id": "app"})
    wait_until(lambda: len(ann.read) == 12)
    group = admin.describe_consumer_groups([topic])[topic].result(WITHIN_S)
    assert (group.state.name, group.partition_assignor) == ("STABLE", "range")
    [member] = group.members
    assert member.client_id == "app"
    assert {p.partition for p in member.assignment.topic_partitions} == set(range(PARTITIONS))
    listed = admin.list_consumer_groups().result(WITHIN_S)
    assert topic in [known.group_id for known in listed.valid]
    with pytest.raises(Exception, match=r"NON_EMPTY_GROUP|not empty"):
        admin.delete_consumer_groups([topic])[topic].result(WITHIN_S)
    ann.leave()

    wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([wanted])[topic].result(WITHIN_S)
    asked = [ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, p) for p in range(PARTITIONS)])]
    found = admin.list_consumer_group_offsets(asked)[topic].result(WITHIN_S)
    assert [partition.offset for partition in found.topic_partitions] == [1, 2, 2, 2, 2, 2]

    admin.delete_consumer_groups([topic])[topic].result(WITHIN_S)
    found = admin.list_consumer_group_offsets(asked)[topic].result(WITHIN_S)
    assert {partition.offset for partition in found.topic_partitions} == {-1001}


def test_groups_and_offsets_survive_a_restart(tmp_path):
    config = {"group.min.session.timeout.ms": "1000", "offsets.topic.num.partitions": "5"}
    with Embedded(data=tmp_path, config=config) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", num_partitions=PARTITIONS)])["orders"].result(WITHIN_S)
        produce(broker, "orders", 30)
        ann = Person(broker, "readers", "orders")
        wait_until(lambda: len(ann.read) == 30)
        ann.leave()
    with Embedded(data=tmp_path, config=config) as broker:
        produce(broker, "orders", 6, start=30)
        ann = Person(broker, "readers", "orders")
        wait_until(lambda: len(ann.read) == 6)
        ann.leave()
        assert sorted(ann.read) == list(range(30, 36))
