"""A test with a real broker, to copy. The fixture `odradek` comes with the package; run it with `pytest`."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

from odradek.testing import Embedded


def test_an_order_reaches_the_warehouse(odradek: Embedded) -> None:
    producer = Producer({"bootstrap.servers": odradek.bootstrap_servers})
    producer.produce("orders", key="alice", value="2 apples")
    assert producer.flush(60) == 0

    warehouse = Consumer(
        {"bootstrap.servers": odradek.bootstrap_servers, "group.id": "warehouse", "auto.offset.reset": "earliest"}
    )
    warehouse.subscribe(["orders"])
    order = warehouse.poll(60)
    assert order is not None
    assert (order.key(), order.value()) == (b"alice", b"2 apples")
    warehouse.close()
