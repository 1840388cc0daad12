"""The program of Kafka's own system tests that copies a topic in transactions, against Odradek and against Kafka.

It aborts transactions at random. Here it is also killed twice, as those tests do. The copy must have every record once.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Embedded
from support.foreign_programs import java
from support.kafka_process import KafkaProcess, jars, tools
from support.small_world import client
from support.transactional_world import seen

RECORDS = [b"%d" % number for number in range(1000)]
GROUP = "copiers"
# How many records it has processed when it is killed, the first and the second time.
KILLED_AFTER = (200, 300)
WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class Result:
    copy: list[bytes]
    committed_offset: int
    # The exit status of the run that was not killed, and what it said was left to do.
    status: int
    remaining: int


def copied(bootstrap: str) -> Result:
    admin = AdminClient(client(bootstrap))
    for created in admin.create_topics([NewTopic(name, 1) for name in ("in", "out")]).values():
        created.result(20)
    producer = Producer(client(bootstrap) | {"enable.idempotence": True})
    for record in RECORDS:
        producer.produce("in", record)
    assert producer.flush(60) == 0
    for processed in KILLED_AFTER:
        _run(bootstrap, lambda told, processed=processed: told.get("totalProcessed", 0) >= processed)
    status, last = _run(bootstrap, lambda _told: False)
    reader = Consumer(client(bootstrap, GROUP))
    [committed] = reader.committed([TopicPartition("in", 0)], 20)
    reader.close()
    return Result([value for _, value in seen(bootstrap, "out")], committed.offset, status, last["remaining"])


def _run(bootstrap: str, is_enough: Callable[[dict], bool]) -> tuple[int, dict]:
    """Its exit status and its last line. It is killed when a line is enough."""
    command = java(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", bootstrap, "--input-topic", "in", "--input-partition", "0", "--output-topic", "out"),
        *("--max-messages", str(len(RECORDS)), "--consumer-group", GROUP, "--transactional-id", "copier"),
        *("--transaction-size", "10", "--enable-random-aborts"),
        classpath=[tools(), jars()],
    )
    last: dict = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"{"):
                last = json.loads(line)
                if is_enough(last):
                    process.kill()
        return process.wait(WITHIN_S), last


@pytest.mark.timeout(900)
@pytest.mark.parametrize("broker", ["odradek", "kafka"])
def test_copier_of_kafkas_system_tests_copies_every_record_once(broker: str, tmp_path: Path) -> None:
    if broker == "kafka":
        with KafkaProcess(tmp_path / "kafka") as kafka:
            result = copied(kafka.bootstrap)
    else:
        with Embedded(data=tmp_path) as odradek:
            result = copied(odradek.bootstrap_servers)
    assert result == Result(RECORDS, len(RECORDS), 0, 0)
