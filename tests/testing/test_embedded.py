"""The embedded broker, used as in a test of a user."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from odradek.base.errors import UnusableDirectory
from odradek.node.machine import DirectoryInUse
from odradek.node.process import NodeFailed
from odradek.testing import Embedded


def produce(broker: Embedded, topic: str, value: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def consume(broker: Embedded, topic: str) -> str:
    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "log_level": 0,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([topic])
    message = reader.poll(60)
    assert message is not None
    assert message.error() is None
    reader.close()
    value: bytes = message.value()
    return value.decode()


def test_two_brokers_have_separate_topics() -> None:
    with Embedded() as one, Embedded() as other:
        produce(one, "t", "in one")
        produce(other, "t", "in the other")
        assert consume(one, "t") == "in one"
        assert consume(other, "t") == "in the other"


def test_data_directory_keeps_records_for_a_later_broker(tmp_path: Path) -> None:
    with Embedded(data=tmp_path) as broker:
        produce(broker, "t", "kept")
    with Embedded(data=tmp_path) as broker:
        assert consume(broker, "t") == "kept"


def test_broker_can_be_restarted() -> None:
    broker = Embedded()
    for _ in range(2):
        broker.start()
        produce(broker, "t", "hello")
        broker.stop()


def test_broker_can_be_started_after_a_failed_start(tmp_path: Path) -> None:
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


def test_use_before_start_raises_an_error_that_explains_it() -> None:
    with pytest.raises(RuntimeError, match="with Embedded"):
        Embedded().bootstrap_servers  # noqa: B018


def test_stop_raises_when_the_broker_had_died() -> None:
    broker = Embedded()
    broker.start()
    os.kill(broker.nodes[1].pid, signal.SIGKILL)
    with pytest.raises(NodeFailed, match="has died"):
        broker.stop()
    with broker:
        produce(broker, "t", "hello")


def test_brokers_end_when_their_test_process_ends(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from odradek.testing import Embedded\n"
        "broker = Embedded(data=Path(sys.argv[1])); broker.start(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    broker = Embedded(data=tmp_path)
    deadline = time.monotonic() + 60
    while True:
        try:
            broker.start()
            break
        except DirectoryInUse:
            assert time.monotonic() < deadline, "the broker still runs after its test process ended"
    broker.stop()


def test_acknowledged_records_survive_a_kill(tmp_path: Path) -> None:
    broker = Embedded(data=tmp_path)
    broker.start()
    produce(broker, "t", "kept")
    broker.kill()
    with broker:
        assert consume(broker, "t") == "kept"


def test_a_paused_broker_answers_when_it_is_resumed() -> None:
    with Embedded() as broker:
        broker.pause()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce("t", "patient")
        assert producer.flush(0.5) == 1
        broker.resume()
        assert producer.flush(60) == 0


def test_requests_of_a_paused_broker_are_available_after_resume() -> None:
    with Embedded() as broker:
        produce(broker, "t", "before")
        broker.pause()
        with pytest.raises(RuntimeError, match="node 1 is paused and cannot answer; resume it"):
            broker.requests()
        broker.delay("Fetch", ms=1)  # its answer comes after `resume`
        broker.resume()
        assert len(broker.requests("Produce")) == 1


def test_log_of_the_broker_goes_to_the_given_file(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    with Embedded(log=log) as broker, socket.create_connection(("127.0.0.1", broker.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(1) == b""
        assert "closing the connection of 127.0.0.1" in log.read_text()
