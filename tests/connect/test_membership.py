"""Which service is active, as Kafka's group coordinator sees it."""

from __future__ import annotations

import threading

from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.connect.service import membership
from odradek.connect.service.membership import Membership
from support.waiting import wait_until

RECORDS = 3


def test_the_group_of_a_service_has_no_lag(odradek, monkeypatch):
    """Otherwise monitors would report a stalled group: it commits all the time and reads nothing."""
    monkeypatch.setattr(membership, "END_EVERY_S", 0.1)
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("configs", 1, 1)])["configs"].result(60)
    producer = Producer({"bootstrap.servers": odradek.bootstrap_servers, "log_level": 0})
    active = threading.Event()
    member = Membership(
        odradek.bootstrap_servers, {}, group="service", topic="configs", client_id="one", changed=lambda _: active.set()
    )
    member.start()
    try:
        assert active.wait(60)
        for _ in range(RECORDS):
            producer.produce("configs", b"config")
        assert producer.flush(60) == 0

        def committed() -> int:
            asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("service")])["service"].result(60)
            return max((place.offset for place in asked.topic_partitions), default=0)

        wait_until(lambda: committed() == RECORDS, committed)
        assert member.holds_lease
    finally:
        member.close()
