"""A topic after Kafka's cleaner: an empty segment, gaps between segments, batches with removed records.

Nine of 120 records over ten keys remain. One record of another producer and eleven in the newest segment follow. The
group that read them is a KIP-848 group.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.adapters.disk import OsDisk
from odradek.adapters.rng import SystemRng
from odradek.base import ids
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.testing import Embedded
from support import small_world

CONFIG = {"offsets.retention.minutes": "2147483647"}
SURVIVORS = [
    *((n, b"key %d" % (n % 10), b"value %d" % n * 5) for n in range(111, 120)),
    (120, b"key 0", b"from a producer that is not heard of again"),
    *((n, b"key %d" % (n % 10), b"value %d" % n) for n in range(121, 131)),
    (131, b"key 9", None),
]


@pytest.fixture(params=["stopped", "as if killed"])
def data(golden, request):
    directory = golden("compacted")
    if request.param == "as if killed":
        (directory / ".kafka_cleanshutdown").unlink()
        (directory / "recovery-point-offset-checkpoint").unlink()
    return directory


def read_from(bootstrap, offset):
    reader = Consumer(small_world.client(bootstrap, "nobody"))
    reader.assign([TopicPartition("compacted", 0, offset)])
    found = []
    deadline = time.monotonic() + 20
    while not found or found[-1][0] < 131:
        assert time.monotonic() < deadline, found
        found += [(m.offset(), m.key(), m.value()) for m in reader.consume(100, 0.1)]
    reader.close()
    return found


def test_remaining_records_are_read_from_every_offset(data):
    with Embedded(data=data, config=CONFIG) as broker:
        for offset in (0, 90, 95, 110, 111, 112, 120, 121, 131):
            assert read_from(broker.bootstrap_servers, offset) == [s for s in SURVIVORS if s[0] >= offset], offset
    with Embedded(data=data, config=CONFIG) as broker:
        assert read_from(broker.bootstrap_servers, 0) == SURVIVORS


def test_time_search_and_producer_state_of_a_topic_compacted_by_kafka(data):
    logs = LogDirectory(OsDisk(str(data)), SystemRng())
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    logs.load(lambda _topic: config, small_world.FIRST_MS)
    log = logs.logs[ids.TopicPartition("compacted", 0)]
    assert (log.log_start_offset, log.log_end_offset) == (0, 132)
    for sought, offset in ((0, 111), (111, 111), (118, 118), (120, 121), (125, 125)):
        assert log.offset_for_timestamp(small_world.FIRST_MS + sought, 132).offset == offset
    assert log.max_timestamp_offset().offset == 131
    known = log.known_producers(small_world.FIRST_MS).by_id
    assert {producer_id: producer.next_sequence for producer_id, producer in known.items()} == {0: 131, 1: 1}


def test_offsets_of_a_kip_848_group_are_available_to_a_classic_group(data):
    with Embedded(data=data, config=CONFIG) as broker:
        committed = small_world.committed(broker.bootstrap_servers, "modern", [("compacted", 0)])
        assert committed == {("compacted", 0): (132, "")}
        producer = Producer(small_world.client(broker.bootstrap_servers))
        producer.produce("compacted", "next", "key 1")
        assert producer.flush(60) == 0
        member = Consumer(small_world.client(broker.bootstrap_servers, "modern"))
        member.subscribe(["compacted"])
        (message,) = member.consume(1, 30)
        assert (message.offset(), message.value()) == (132, b"next")
        member.close()


def test_all_topic_configs_of_kafka_are_supported(data, tmp_path):
    log = tmp_path / "broker.log"
    with Embedded(data=data, config=CONFIG, log=log):
        pass
    said = [line.partition(" WARNING ")[2] for line in log.read_text().splitlines() if " ignores " in line]
    assert said == []


@pytest.mark.parametrize("how_far", range(4))
def test_swap_interrupted_by_a_kill_of_kafka_is_finished(data, how_far):
    """Its cleaner was replacing two segments with one. The removed files up to that step are kept for the test."""
    partition = data / "compacted-0"
    for kind in ("log", "index", "timeindex"):
        compacted = partition / f"{90:020d}.{kind}"
        for base in (90, 100):
            (partition / f"{base:020d}.{kind}.deleted").write_bytes(b"what was there before" if base == 90 else b"")
        compacted.rename(partition / f"{compacted.name}.swap")
        for base in (90, 100)[: max(0, 2 - how_far)]:
            (partition / f"{base:020d}.{kind}.deleted").rename(partition / f"{base:020d}.{kind}")
        if how_far == 3 and kind == "log":
            (partition / f"{compacted.name}.swap").rename(compacted)
    with Embedded(data=data, config=CONFIG) as broker:
        assert read_from(broker.bootstrap_servers, 0) == SURVIVORS
    assert not [name for name in partition.iterdir() if name.suffix in (".swap", ".deleted")]


def test_incomplete_swap_of_kafka_is_undone(data):
    """Not all segments of the swap were renamed."""
    partition = data / "compacted-0"
    (partition / f"{90:020d}.log.swap").write_bytes(b"half of a split")
    (partition / f"{0:020d}.log.cleaned").write_bytes(b"the other half")
    logs = LogDirectory(OsDisk(str(data)), SystemRng())
    logs.load(lambda _topic: LogConfig(cleanup_policy=frozenset({"compact"})), small_world.FIRST_MS)
    log = logs.logs[ids.TopicPartition("compacted", 0)]
    assert log.offset_for_timestamp(0, 132).offset == 111
    assert not [name for name in partition.iterdir() if name.suffix in (".swap", ".cleaned")]
