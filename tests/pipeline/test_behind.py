"""The lag of a query on topics with transactions."""

import time

from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.client.first_records import FirstRecords
from odradek.pipeline.behind import behind
from support.waiting import wait_until


def lag(cluster, first):
    found = behind(cluster, first, "app.query", {})
    return found.records, found.seconds


def test_lag_leaves_out_open_transactions_and_ends_with_the_last_marker(odradek):
    cluster = Admin(odradek.bootstrap_servers)
    cluster.create_topic("orders", 1)
    producer = Producer({"bootstrap.servers": odradek.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"one")
    producer.produce("orders", b"two")
    producer.commit_transaction(60)
    first = FirstRecords(odradek.bootstrap_servers)
    wait_until(lambda: cluster.end_offsets("orders", committed=True) == {0: 3}, "the marker", within_s=60)
    assert cluster.end_offsets("orders") == {0: 3}
    cluster.set_committed("app.query", {("orders", 0): 3})
    assert lag(cluster, first) == ({"orders": 0}, {"orders": 0.0})

    producer.begin_transaction()
    producer.produce("orders", b"three", timestamp=int(time.time() * 1000) - 60_000)
    assert producer.flush(60) == 0
    assert cluster.end_offsets("orders") == {0: 4}
    assert cluster.end_offsets("orders", committed=True) == {0: 3}
    assert lag(cluster, first) == ({"orders": 0}, {"orders": 0.0})

    producer.commit_transaction(60)
    wait_until(lambda: cluster.end_offsets("orders", committed=True) == {0: 5}, "the second marker", within_s=60)
    records, seconds = lag(cluster, first)
    assert records == {"orders": 2}
    assert seconds["orders"] >= 60
    first.close()
