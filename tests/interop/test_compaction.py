"""Apache Kafka on logs that Odradek compacted: its tools find no errors, it reads the same, and compacts further."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from odradek.adapters.disk import OsDisk
from odradek.adapters.rng import SystemRng
from odradek.base.ids import TopicPartition
from odradek.log.cleaning import clean
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from support import compacted_topic
from support.broker_process import BrokerProcess
from support.kafka_process import KafkaProcess, dump
from support.steps import finished

COMPLAINTS = re.compile(
    r"isvalid: false|[Mm]ismatch|rror|xception|out of order|not found|[Ff]ailed|invalid bytes|corrupt"
)
LOG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=4000, index_interval_bytes=200)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[bytes, bytes | None]]:
    """A directory whose log is not compacted yet, and the last value of each key."""
    broker = BrokerProcess(tmp_path_factory.mktemp("written") / "data").start()
    compacted_topic.create(broker.bootstrap)
    latest = compacted_topic.fill(broker.bootstrap)
    broker.stop()
    return broker.data, latest


@pytest.fixture(scope="module")
def compacted(written, tmp_path_factory) -> Path:
    data = tmp_path_factory.mktemp("compacted") / "data"
    shutil.copytree(written[0], data)
    broker = BrokerProcess(data)
    broker.config |= compacted_topic.BROKER
    broker.start()
    compacted_topic.await_compacted(data)
    broker.stop()
    return data


def state(rows) -> dict[bytes, bytes | None]:
    return {key: value for _, key, value in rows}


def test_dump_log_finds_no_errors_in_compacted_segments(compacted):
    partition = compacted / f"{compacted_topic.TOPIC}-0"
    text = dump("--deep-iteration", files=sorted(partition.glob("*.log")))
    # Compaction leaves gaps.
    text = re.sub(r"Non-consecutive offsets in \S+\n(\s+-?\d+ is followed by \d+\n?)+", "", text)
    assert not COMPLAINTS.search(text)
    assert "deleteHorizonMs: OptionalLong[" in text
    assert re.search(r"count: 0 .*producerId: \d+", text), "the last batch of each producer is kept, empty"
    indexes = sorted(path for path in partition.glob("*index") if path.stat().st_size)
    for option in ("--verify-index-only", "--index-sanity-check"):
        text = dump(option, files=indexes)
        # Empty batches have a timestamp, also in Kafka's own logs, but the tool expects a record with it.
        text = re.sub(r"Found timestamp mismatch in \S+\n(\s+Index timestamp: \d+, log timestamp: -1\n?)+", "", text)
        assert not COMPLAINTS.search(text)


def test_kafka_reads_our_compacted_log_and_compacts_it_further(written, compacted, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(compacted, data)
    _, latest = written
    broker = BrokerProcess(data).start()
    ours = compacted_topic.read(broker.bootstrap)
    broker.stop()
    assert state(ours) == latest
    with KafkaProcess(data, broker.port, config={"log.cleaner.backoff.ms": "100"}) as kafka:
        assert compacted_topic.read(kafka.bootstrap) == ours
        again = compacted_topic.fill(kafka.bootstrap)
        compacted_topic.await_compacted(data)
        assert state(compacted_topic.read(kafka.bootstrap)) == again
    broker.start()
    assert state(compacted_topic.read(broker.bootstrap)) == again
    broker.stop()


@pytest.mark.parametrize("steps", range(4))
def test_kafka_finishes_an_unfinished_segment_swap_of_odradek(written, tmp_path, steps):
    data = tmp_path / "data"
    shutil.copytree(written[0], data)
    half_a_swap(data, steps)
    with KafkaProcess(data) as kafka:
        assert state(compacted_topic.read(kafka.bootstrap)) == written[1]


def half_a_swap(data: Path, steps: int) -> None:
    disk = OsDisk(str(data))
    logs = LogDirectory(disk, SystemRng())
    logs.load(lambda _topic: LOG, 0)
    log = logs.logs[TopicPartition(compacted_topic.TOPIC, 0)]
    end = log.log_end_offset
    plan = log.compacting.plan(log.compacting.dirt(end, 10**13), end, 10**13, 1 << 20)
    swap = log.compacting.begin_swap(plan, finished(clean(disk, plan)).replacements[0])
    for _ in range(steps):
        log.compacting.step_swap()
        swap.sync()
    disk.close()
