"""The trucks' radio against a real broker that goes away meanwhile."""

from __future__ import annotations

import socket
import time
from collections import Counter

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.demo.trucking import topics
from odradek.demo.trucking.fleet import Fleet, Record
from odradek.demo.trucking.follower import BehindWatch, Follower
from odradek.demo.trucking.simulator import AHEAD_MS, Simulator
from odradek.testing import Embedded
from support.waiting import wait_until


def create_topics(bootstrap: str) -> None:
    cluster = Admin(bootstrap)
    for name in topics.INPUTS + topics.OUTPUTS:
        cluster.create_topic(name, topics.PARTITIONS)


def test_while_the_broker_is_away_the_trucks_wait_and_nothing_is_lost_or_doubled(tmp_path):
    sent: list[Record] = []
    seen: Counter[tuple[str, bytes]] = Counter()

    def see(messages) -> None:
        seen.update((message.topic(), message.value()) for message in messages)

    broker = Embedded(data=tmp_path)
    broker.start()
    bootstrap, port = broker.bootstrap_servers, broker.port
    create_topics(bootstrap)
    fleet = Fleet(seed=1, start_ms=int(time.time() * 1000), events_per_s=2)
    simulator = Simulator(bootstrap, fleet, sent.append)
    follower = Follower(bootstrap, see)
    simulator.start()
    follower.start()
    wait_until(lambda: len(seen) > 100)
    broker.stop()
    wait_until(lambda: simulator.waiting)
    stands_ms = next(iter(simulator._unacknowledged.values())) + AHEAD_MS
    wait_until(lambda: time.time() * 1000 > stands_ms + AHEAD_MS / 4)
    # A position tells the clock; a speed is measured a moment later.
    assert max(record.time_ms for record in sent if record.topic == topics.POSITIONS) <= stands_ms

    broker = Embedded(data=tmp_path, port=port)
    broker.start()
    wait_until(lambda: not simulator.waiting)
    simulator.stop()
    wait_until(lambda: not simulator.on_their_way())
    expected = Counter((record.topic, record.value) for record in sent)
    wait_until(lambda: seen.total() >= expected.total())
    follower.stop()
    broker.stop()
    assert simulator.failures == []
    assert seen == expected


def test_trucks_stand_at_once_also_when_the_broker_is_away():
    """The caller restarts the broker, so it must not wait for the broker here."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{nobody.getsockname()[1]}"
        simulator = Simulator(bootstrap, Fleet(seed=1, start_ms=int(time.time() * 1000)), lambda _: None)
        simulator.start()
        wait_until(lambda: simulator.waiting)
        simulator.stop()
        assert simulator.on_their_way() > 0
        assert simulator.failures == []
        # Records in flight keep their producer alive. It would connect to the next broker on that port.
        simulator._producer.purge()
        wait_until(lambda: not simulator.on_their_way())


def produce(bootstrap: str, records: int, age_s: float) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(records):
        producer.produce(topics.POSITIONS, b"x", partition=0, timestamp=int((time.time() - age_s) * 1000))
    assert producer.flush(60) == 0


def test_behind_is_what_the_slowest_group_has_not_processed_also_after_a_restart_of_the_broker(tmp_path):
    broker = Embedded(data=tmp_path)
    broker.start()
    bootstrap, port = broker.bootstrap_servers, broker.port
    create_topics(bootstrap)
    produce(bootstrap, 5, 1000)
    produce(bootstrap, 10, 500)
    for group, offset in (("trucking.a", 13), ("trucking.b", 5), ("other", 0)):
        consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topics.POSITIONS, 0, offset)], asynchronous=False)
        consumer.close()
    watch = BehindWatch(bootstrap, "trucking")
    watch.start()
    wait_until(lambda: watch.behind is not None)
    assert watch.behind.records == {topics.POSITIONS: 10}
    assert 500 <= watch.behind.seconds_max < 1000
    broker.stop()
    broker = Embedded(data=tmp_path, port=port)
    broker.start()
    produce(bootstrap, 1, 0)
    wait_until(lambda: watch.behind.records == {topics.POSITIONS: 11})
    watch.stop()
    broker.stop()
