"""A broker starts with a data directory of Kafka and continues with it."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from odradek.adapters.disk import OsDisk
from odradek.adapters.rng import SystemRng
from odradek.base.ids import TopicPartition
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.protocol.batch import iter_batches
from odradek.testing import Embedded
from support import small_world
from support.log_audit import audit_partition

# The groups have been empty for longer than the default offset retention.
# A client of another test may still connect to this port, which its broker had before, and ask for its topic.
CONFIG = {"offsets.retention.minutes": "2147483647", "auto.create.topics.enable": "false"}
DIRECTORIES = ("stopped", "killed", "configured-voters", "aged")


@pytest.mark.parametrize("name", DIRECTORIES)
def test_records_of_kafka_are_served_and_survive_a_restart(golden, name):
    data = golden(name)
    killed = name == "killed"
    with Embedded(data=data, config=CONFIG) as broker:
        small_world.check(broker.bootstrap_servers, after_kill=killed)
        offsets = small_world.IdempotentProducer(broker.bootstrap_servers).send("edges", 0, [b"ours", b"too"])
        assert offsets == [5, 6]
    with Embedded(data=data, config=CONFIG) as broker:
        small_world.check(broker.bootstrap_servers, after_kill=killed, added={("edges", 0): [b"ours", b"too"]})
    for partition in data.glob("rolled-?"):
        assert audit_partition(partition) == 120


@pytest.mark.parametrize("name", ["stopped", "configured-voters"])
def test_group_of_kafka_continues_at_its_committed_offsets(golden, name):
    with Embedded(data=golden(name), config=CONFIG) as broker:
        small_world.IdempotentProducer(broker.bootstrap_servers).send("rolled", 0, [b"next"])
        member = Consumer(small_world.client(broker.bootstrap_servers, "readers"))
        member.subscribe(["rolled"])
        (message,) = member.consume(1, 30)
        assert (message.offset(), message.value()) == (120, b"next")
        member.close()


@pytest.mark.parametrize("name", DIRECTORIES)
def test_producer_state_of_kafka_detects_retries_and_gaps(golden, name):
    """A retry is answered with the first offset; a sequence gap is detected."""
    logs = loaded(golden(name))
    log = logs.logs[TopicPartition("rolled", 0)]
    assert logs.stopped_cleanly == (name != "killed")
    batches = [bytearray(batch) for _, batch in iter_batches(log.read(100, 1 << 20, 120, True).read())]
    for first_offset, batch in zip((100, 110), batches, strict=True):
        batch[:8] = bytes(8)  # the base offset, as a client sends it
        appended = log.appending.as_leader(memoryview(batch), 0, small_world.FIRST_MS)
        assert (appended.base_offset, appended.duplicate) == (first_offset, True)
    ((producer_id, producer),) = log.known_producers(small_world.FIRST_MS).by_id.items()
    assert (producer_id, producer.epoch, producer.next_sequence) == (0, 0, 120)


@pytest.mark.parametrize("name", DIRECTORIES)
def test_time_search_uses_kafkas_indexes(golden, name):
    rising, falling = (loaded(golden(name)).logs[TopicPartition("rolled", n)] for n in (0, 1))
    for sought in (0, 33, 69, 70, 119):
        found = rising.offset_for_timestamp(small_world.FIRST_MS + sought, 120)
        assert (found.offset, found.timestamp) == (sought, small_world.FIRST_MS + sought)
    assert rising.offset_for_timestamp(small_world.FIRST_MS + 120, 120) is None
    assert rising.max_timestamp_offset().offset == 119
    assert falling.max_timestamp_offset().offset == 0
    assert rising.end_offset_for_epoch(0) == (0, 120)


def loaded(data) -> LogDirectory:
    logs = LogDirectory(OsDisk(str(data)), SystemRng())
    logs.load(lambda _topic: LogConfig(index_interval_bytes=200), small_world.FIRST_MS)
    return logs
