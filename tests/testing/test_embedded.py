"""The embedded broker, as its users meet it."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from odradek.base.errors import UnusableDirectory
from odradek.testing import Embedded


def produce(broker: Embedded, topic: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(10) == 0


def consume(broker: Embedded, topic: str) -> str:
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    message = reader.poll(10)
    assert message is not None
    assert message.error() is None
    reader.close()
    value: bytes = message.value()
    return value.decode()


def test_two_brokers_know_nothing_of_each_other() -> None:
    with Embedded() as one, Embedded() as other:
        produce(one, "t", "in one")
        produce(other, "t", "in the other")
        assert consume(one, "t") == "in one"
        assert consume(other, "t") == "in the other"


def test_a_directory_outlives_its_broker(tmp_path: Path) -> None:
    with Embedded(data=tmp_path) as broker:
        produce(broker, "t", "kept")
    with Embedded(data=tmp_path) as broker:
        assert consume(broker, "t") == "kept"


def test_it_can_be_started_again() -> None:
    broker = Embedded()
    for _ in range(2):
        broker.start()
        produce(broker, "t", "hello")
        broker.stop()


def test_it_can_be_started_again_after_a_start_that_failed(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("nonsense")
    broker = Embedded(data=tmp_path)
    with pytest.raises(UnusableDirectory):
        broker.start()
    (tmp_path / "meta.properties").unlink()
    with broker:
        produce(broker, "t", "hello")


def test_a_wrong_config_is_refused_by_name() -> None:
    with pytest.raises(Exception, match=r"no\.such\.key"):
        Embedded(config={"no.such.key": "1"})


def test_using_it_before_it_runs_is_explained() -> None:
    with pytest.raises(RuntimeError, match="with Embedded"):
        Embedded().bootstrap_servers  # noqa: B018
