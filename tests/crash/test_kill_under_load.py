"""kill -9 at random moments under load: nothing acknowledged is lost, doubled or reordered; indexes equal a rebuild.

`make crash ROUNDS=50` is the long form. A failure names its seed; `SEED=n` replays the choice of moments.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker_process import BrokerProcess
from support.log_audit import audit_partition

pytestmark = pytest.mark.crash

ROUNDS = int(os.environ.get("ROUNDS", "6"))
SEED = int(os.environ.get("SEED", str(time.time_ns() % 1_000_000)))
PARTITIONS = 3


class Load:
    """An idempotent producer that numbers its records per partition and remembers what was acknowledged where."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]  # offset -> number
        self.sent = [0] * PARTITIONS
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 200,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 100,
                "socket.timeout.ms": 5000,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                number = self.sent[partition]
                payload = b"%d" % number * (1 + number % 50)
                try:
                    self._producer.produce(self._topic, payload, b"%d" % number, partition, on_delivery=self._delivered)
                except BufferError:
                    break
                self.sent[partition] += 1
            self._producer.poll(0.0005)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None, error
        self.acknowledged[message.partition()][message.offset()] = int(message.key())


def read_all(bootstrap: str, topic: str, partition: int, end: int) -> list[int]:
    reader = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, "group.id": "audit", "check.crcs": True})
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    numbers: list[int] = []
    deadline = time.monotonic() + 60
    while len(numbers) < end:
        assert time.monotonic() < deadline, f"read {len(numbers)} of {end}"
        for message in reader.consume(5000, 0.2):
            assert message.error() is None, message.error()
            assert message.offset() == len(numbers)
            numbers.append(int(message.key()))
    reader.close()
    return numbers


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_nothing_acknowledged_is_lost_doubled_or_reordered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(SEED)
    print(f"SEED={SEED} ROUNDS={ROUNDS}")
    broker = BrokerProcess(tmp_path / "data", log_retention_check_interval_ms="500").start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topic = NewTopic("load", PARTITIONS, config={"segment.bytes": "1048576", "index.interval.bytes": "512"})
    admin.create_topics([topic])["load"].result(60)
    load = Load(broker.bootstrap, "load")
    for _ in range(ROUNDS):
        time.sleep(rng.uniform(0.05, 1.0))
        broker.kill()
        broker.start()
    load.finish()
    assert all(load.acknowledged), "no partition may be left out"
    for partition, acknowledged in enumerate(load.acknowledged):
        end = Consumer(
            {"bootstrap.servers": broker.bootstrap, "log_level": 0, "group.id": "audit"}
        ).get_watermark_offsets(TopicPartition("load", partition), timeout=60)[1]
        numbers = read_all(broker.bootstrap, "load", partition, end)
        assert numbers == list(range(load.sent[partition])), f"SEED={SEED}: lost, doubled or reordered"
        assert all(numbers[offset] == number for offset, number in acknowledged.items()), f"SEED={SEED}"
    assert broker.stop() == 0
    for partition in range(PARTITIONS):
        audit_partition(broker.data / f"load-{partition}")
    with capsys.disabled():
        acknowledged = sum(map(len, load.acknowledged))
        print(f"\n{ROUNDS} kills, {acknowledged:,} records acknowledged: each there once, in order; indexes as rebuilt")
