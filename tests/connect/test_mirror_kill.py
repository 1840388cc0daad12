"""A mirror that is killed again and again while it copies: every record is in the target once, in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.client.admin import Admin
from odradek.testing import Embedded
from support.waiting import wait_until

RECORDS, KILLS = 30_000, 3
# A process starts, or copies all records, in seconds. On a busy machine, each took more than a minute.
PATIENCE_S = 240.0
PARTITIONS = 3


def serve(bootstrap: str, file: Path) -> tuple[subprocess.Popen[bytes], str]:
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "support.connect_process", bootstrap, str(file), "mirrors"]
    with file.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=log, stderr=log)
    wait_until(lambda: file.exists() or process.poll() is not None, "the service", within_s=PATIENCE_S)
    return process, file.read_text()


def values(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """The committed records of each partition."""
    if topic not in Admin(bootstrap).topics():
        return {}
    found: dict[int, list[int]] = {}
    ended: set[int] = set()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    try:
        while len(ended) < PARTITIONS:
            for each in consumer.consume(5_000, 0.2):
                if each.error() is None:
                    found.setdefault(each.partition(), []).append(int(each.value()))
                else:
                    ended.add(each.partition())
    finally:
        consumer.close()
    return found


def test_a_mirror_that_is_killed_repeats_and_loses_nothing(tmp_path: Path) -> None:
    with Embedded() as source, Embedded() as target:
        Admin(source.bootstrap_servers).create_topic("numbers", PARTITIONS)
        producer = Producer({"bootstrap.servers": source.bootstrap_servers, "queue.buffering.max.messages": 1_000_000})
        for number in range(RECORDS):
            producer.produce("numbers", str(number), partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        config = {
            "connector.class": "mirror",
            "source.cluster.alias": "west",
            "source.cluster.bootstrap.servers": source.bootstrap_servers,
            "target.cluster.bootstrap.servers": target.bootstrap_servers,
            "topics": "numbers",
            "batch.records.max": "100",
            "poll.interval.ms": "50",
        }
        there = target.bootstrap_servers
        copied = 0
        for kill in range(KILLS + 1):
            process, url = serve(there, tmp_path / "url")
            try:
                if kill == 0:
                    with httpx.Client(base_url=url, timeout=60) as http:
                        answer = http.post("/connectors", json={"name": "numbers", "config": config})
                        assert answer.status_code == 201, answer.text
                wanted = RECORDS if kill == KILLS else copied + 1 + kill * RECORDS // 10

                def is_further(wanted: int = wanted) -> bool:
                    return sum(map(len, values(there, "west.numbers").values())) >= wanted

                wait_until(is_further, "more records are copied", within_s=PATIENCE_S)
            finally:
                process.kill()
                process.wait()
            copied = sum(map(len, values(there, "west.numbers").values()))
        expected = {index: list(range(index, RECORDS, PARTITIONS)) for index in range(PARTITIONS)}
        assert values(there, "west.numbers") == expected
