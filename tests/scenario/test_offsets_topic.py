"""The topic of committed offsets is created when it is first needed, which may be a bad moment."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from odradek.client import Consumer, Producer
from odradek.testing import Embedded
from support.waiting import wait_until

PATIENCE_S = 60.0


def test_a_broker_that_is_down_gets_its_replica_of_the_offsets_topic_when_it_is_back() -> None:
    with Embedded(brokers=3) as cluster:
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("orders", b"1").result(30)
        cluster.nodes[3].kill()
        with Consumer("orders", bootstrap=cluster.bootstrap_servers, group="readers", stop_at_end=True) as consumer:
            assert len(list(consumer)) == 1
        cluster.nodes[3].start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

        def is_whole() -> bool:
            partitions = admin.list_topics("__consumer_offsets", timeout=20).topics["__consumer_offsets"].partitions
            assert all(len(partition.replicas) == 3 for partition in partitions.values())
            return bool(partitions) and all(len(partition.isrs) == 3 for partition in partitions.values())

        wait_until(is_whole, "the third replica is in sync", every_s=0.1)
