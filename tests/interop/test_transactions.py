"""A directory with open transactions moves from Odradek to Apache Kafka and back, after a stop and after a kill."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import transactional_world
from support.broker_process import BrokerProcess
from support.kafka_process import KafkaProcess, dump
from support.transactional_world import COMPACTED, TOPIC

# The open transaction of the other broker ends when its producer comes back.
DECIDED = [b"after"]
# Producers of a stopped broker: if they were released, they would wait for it.
KEPT = []


def end(broker: BrokerProcess, how: str) -> None:
    broker.stop() if how == "stop" else broker.kill()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_kafka_opens_our_transactions(tmp_path: Path, how: str) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    KEPT.extend(transactional_world.fill(broker.bootstrap))
    transactional_world.check(broker.bootstrap)
    end(broker, how)
    with KafkaProcess(broker.data, broker.port) as kafka:
        transactional_world.check(kafka.bootstrap)
        transactional_world.transactional(kafka.bootstrap, "first")
        transactional_world.check(kafka.bootstrap, decided=DECIDED)
    broker.start()
    transactional_world.check(broker.bootstrap, decided=DECIDED)
    broker.stop()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_odradek_opens_transactions_of_kafka(tmp_path: Path, how: str) -> None:
    kafka = KafkaProcess(tmp_path / "data").start()
    KEPT.extend(transactional_world.fill(kafka.bootstrap))
    kafka.stop() if how == "stop" else kafka.kill()
    broker = BrokerProcess(kafka.data).start()
    transactional_world.check(broker.bootstrap)
    transactional_world.transactional(broker.bootstrap, "first")
    transactional_world.check(broker.bootstrap, decided=DECIDED)
    broker.stop()


def test_dump_log_reads_our_indexes_and_snapshots(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    KEPT.extend(transactional_world.fill(broker.bootstrap))
    broker.stop()
    for topic in (TOPIC, COMPACTED):
        partition = broker.data / f"{topic}-0"
        text = dump("--deep-iteration", files=sorted(partition.glob("*.log")))
        assert re.search(r"isControl: true .*endTxnMarker: ABORT", text, re.DOTALL)
        assert "isvalid: false" not in text
        indexes = dump(files=sorted(partition.glob("*.txnindex")))
        assert re.search(r"version: 0 producerId: \d+ firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+", indexes)
        assert "producerId:" in dump(files=sorted(partition.glob("*.snapshot")))
