"""kill -9 at random moments of compaction: each key has its last acknowledged value, and no unacknowledged one.

`make crash ROUNDS=50` is the long form. A failure names its seed; `SEED=n` replays the choice of moments.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from confluent_kafka import Producer

from support import compacted_topic, small_world
from support.broker_process import BrokerProcess
from support.compacted_topic import TOPIC
from support.log_audit import audit_partition

pytestmark = pytest.mark.crash

ROUNDS = int(os.environ.get("ROUNDS", "6")) // 2
SEED = int(os.environ.get("SEED", str(time.time_ns() % 1_000_000)))
RESTLESS = {"log.cleaner.backoff.ms": "5", "log.flush.offset.checkpoint.interval.ms": "300"}


class Load:
    def __init__(self, bootstrap: str, chance: random.Random) -> None:
        config = {"enable.idempotence": True, "batch.num.messages": 15, "linger.ms": 1}
        self._producer = Producer({**small_world.client(bootstrap), **config})
        self._chance = chance
        self._sent = 0
        self.acknowledged: dict[int, tuple[bytes, bytes | None]] = {}  # by offset

    def run_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(30):
                self._send()
            self._producer.poll(0.005)

    def _send(self) -> None:
        self._sent += 1
        key = b"%d" % self._chance.randrange(40)
        value = b"%d" % self._sent * self._chance.randrange(1, 8) if self._chance.random() < 0.8 else None

        def told(error, message) -> None:
            assert error is None, error
            self.acknowledged[message.offset()] = key, value

        self._producer.produce(TOPIC, value, key, on_delivery=told)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0

    def check(self, rows: list[tuple[int, bytes, bytes | None]]) -> None:
        assert all(self.acknowledged[offset] == (key, value) for offset, key, value in rows)
        found = {key: offset for offset, key, _ in rows}
        latest = {key: offset for offset, (key, _) in sorted(self.acknowledged.items())}
        for key, offset in latest.items():
            deleted = self.acknowledged[offset][1] is None
            assert found.get(key, offset if deleted else None) == offset, f"{key!r} at {offset}"


def test_the_last_acknowledged_value_of_each_key_is_there(tmp_path):
    chance = random.Random(SEED)
    broker = BrokerProcess(tmp_path / "data")
    broker.config |= RESTLESS
    broker.start()
    compacted_topic.create(broker.bootstrap)
    load = Load(broker.bootstrap, chance)
    for number in range(ROUNDS):
        load.run_for(chance.uniform(0.5, 3))
        broker.kill()
        broker.start()
        load.finish()
        load.check(compacted_topic.read(broker.bootstrap))
        assert broker.pid, f"seed {SEED}, round {number}"
    compacted_topic.await_compacted(broker.data)
    load.check(compacted_topic.read(broker.bootstrap))
    broker.stop()
    audit_partition(broker.data / f"{TOPIC}-0", compacted=True)
